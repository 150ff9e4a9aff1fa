// What is shown stands in the address of the page, so that it can be shared as a link and the browser's "back" works.
// TensorBoard shows this page in a frame: the address is that of the window around it, after `#speech_profile`, each key
// with the prefix that TensorBoard keeps for plugins.

import { useEffect, useState } from "preact/hooks";

const PLUGIN = "speech_profile";
const PREFIX = `p.${PLUGIN}.`;

export const KEYS = [
  "run", "variant", "cell", "tab", "figure", "baseline", "right_run", "right_variant", "right_cell", "filter", "sort", "search", "window",
  "range", "trace", "span",
] as const;
export type Key = (typeof KEYS)[number];
export type Shown = Partial<Record<Key, string>>;

function outer(): Window {
  try {
    void window.parent.location.hash; // throws where the frame belongs to another site
    return window.parent;
  } catch {
    return window;
  }
}

export function read(): Shown {
  const shown: Shown = {};
  for (const part of outer().location.hash.slice(1).split("&")) {
    const [key, value] = part.split("=", 2);
    const name = key.startsWith(PREFIX) ? key.slice(PREFIX.length) : "";
    if ((KEYS as readonly string[]).includes(name) && value) shown[name as Key] = decoded(value);
  }
  return shown;
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}

function write(shown: Shown, step: boolean): void {
  const page = outer();
  const others = page.location.hash.slice(1).split("&").filter((part) => part && !part.startsWith(PREFIX));
  const own = KEYS.filter((key) => shown[key]).map((key) => `${PREFIX}${key}=${encodeURIComponent(shown[key]!)}`);
  const hash = `#${[...(others.length ? others : [PLUGIN]), ...own].join("&")}`;
  if (hash === page.location.hash) return;
  if (step) page.history.pushState(page.history.state, "", hash);
  else page.history.replaceState(page.history.state, "", hash);
}

export type Show = (changes: Shown, step?: boolean) => void;

/** What is shown, and how to change it: with `step` the change is one that "back" undoes. */
export function useAddress(): [Shown, Show] {
  const [shown, setShown] = useState<Shown>(read);
  useEffect(() => {
    const page = outer();
    const follow = () => setShown(read());
    page.addEventListener("popstate", follow);
    page.addEventListener("hashchange", follow);
    return () => {
      page.removeEventListener("popstate", follow);
      page.removeEventListener("hashchange", follow);
    };
  }, []);
  const show: Show = (changes, step = true) => {
    const next = { ...read(), ...changes };
    write(next, step);
    setShown(next);
  };
  return [shown, show];
}
