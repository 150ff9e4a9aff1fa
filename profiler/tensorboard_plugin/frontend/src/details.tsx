// One span in words. Of something that ran on a device also how and when it was launched; of a launch, what it launched.

import type { Linked, Span } from "./api";
import { bytesText, countText, timeText } from "./units";

const NAMES: Record<string, [string, (value: number) => string]> = {
  registers: ["registers per thread", countText],
  shared_memory: ["shared memory", bytesText],
  blocks_per_sm: ["blocks per SM", countText],
  occupancy: ["estimated occupancy", (value) => `${countText(value)} %`],
  bytes: ["size", bytesText],
};

function settingText(key: string, value: number | number[]): string {
  if (Array.isArray(value)) return `${key} ${value.join(" × ")}`;
  const [name, text] = NAMES[key] ?? [key, countText];
  return `${name} ${text(value)}`;
}

export function Details(props: { span: Span; go?: (linked: Linked) => void }) {
  const { span } = props;
  const settings = Object.entries(span.settings ?? {});
  return <div role="status"><dl class="details" aria-label="The chosen span" data-span={span.short}>
    <dt title={span.name}>{span.short}</dt>
    <dd>{timeText(span.duration)} (self {timeText(span.own)}), from {timeText(span.start)}; {span.category || "no category"}; {span.track}</dd>
    {span.path.length > 0 && <dd>in {span.path.join(" › ")}</dd>}
    {span.detail && <dd>shapes and types: <code>{span.detail}</code></dd>}
    {settings.length > 0 && <dd data-settings>{settings.map(([key, value]) => settingText(key, value)).join(", ")}</dd>}
    {span.settings && span.linked.map((launch) => <dd data-launch>launched by {launch.name}
      {launch.path.length > 0 && ` in ${launch.path.join(" › ")}`} at {timeText(launch.start)}; it ran {timeText(launch.delay)} later
      {props.go && <> <button type="button" onClick={() => props.go!(launch)}>Go to the launch</button></>}</dd>)}
    {!span.settings && span.linked.map((ran) => <dd data-launched>launched {ran.name} ({timeText(ran.duration)}), which ran {timeText(ran.delay)} later
      {props.go && <> <button type="button" onClick={() => props.go!(ran)}>Go to it</button></>}</dd>)}
    {span.settings && span.name !== span.short && <dd><details><summary>whole name</summary><code>{span.name}</code></details></dd>}
  </dl></div>;
}
