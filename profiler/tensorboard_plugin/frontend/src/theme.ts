// Light or dark: as TensorBoard is set, which follows the system unless told otherwise; on its own page, as the system is.

import { useEffect, useState } from "preact/hooks";

function outerBody(): HTMLElement | null {
  try {
    return window.parent !== window ? window.parent.document.body : null;
  } catch {
    return null;
  }
}

const system = matchMedia("(prefers-color-scheme: dark)");

function isDark(): boolean {
  const body = outerBody();
  return body ? body.classList.contains("dark-mode") : system.matches;
}

export function useDark(): boolean {
  const [dark, setDark] = useState(isDark);
  useEffect(() => {
    const follow = () => setDark(isDark());
    system.addEventListener("change", follow);
    const body = outerBody();
    const watch = new MutationObserver(follow);
    if (body) watch.observe(body, { attributes: true, attributeFilter: ["class"] });
    follow();
    return () => {
      system.removeEventListener("change", follow);
      watch.disconnect();
    };
  }, []);
  useEffect(() => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
  }, [dark]);
  return dark;
}
