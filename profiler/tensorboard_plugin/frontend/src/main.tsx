// The entry point: TensorBoard imports this file into an empty page and calls `render`.

import { render as draw } from "preact";
import { App } from "./app";
import "uplot/dist/uPlot.min.css";
import "./style.css";

export function render(): void {
  const style = document.createElement("link");
  style.rel = "stylesheet";
  style.href = new URL("index.css", import.meta.url).href;
  document.head.append(style);
  document.documentElement.lang = "en";
  document.title = "Speech profile";
  const root = document.createElement("div");
  root.id = "speech-profile";
  document.body.append(root);
  draw(<App />, root);
}
