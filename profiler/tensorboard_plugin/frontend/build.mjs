// Bundles the page into ../static: index.js, index.css, and the licences of what is in them.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, rmSync, mkdirSync, writeFileSync } from "node:fs";

const target = "../static";
rmSync(target, { recursive: true, force: true });
mkdirSync(target);
const result = await build({
  entryPoints: { index: "src/main.tsx" },
  outdir: target,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none", // they are in THIRD_PARTY_LICENSES.txt, whole
  metafile: true,
});

const packages = new Set();
for (const input of Object.keys(result.metafile.inputs)) {
  const found = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input);
  if (found) packages.add(found[1]);
}
const texts = [...packages].sort().map((name) => {
  const folder = `node_modules/${name}`;
  const about = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
  if (!file) throw new Error(`${name} ships no licence`);
  return `${name} ${about.version} (${about.license})\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}\n`;
});
const head = "The page contains the following libraries, each under its own licence.\n";
writeFileSync(`${target}/THIRD_PARTY_LICENSES.txt`, [head, ...texts].join(`\n${"-".repeat(80)}\n\n`));

// A test compares this with the sources: what is committed here is what was built from them.
const hash = createHash("sha256");
for (const file of ["package-lock.json", ...readdirSync("src").sort().map((name) => `src/${name}`)]) hash.update(readFileSync(file));
writeFileSync(`${target}/built-from.txt`, `${hash.digest("hex")}\n`);
for (const [name, made] of Object.entries(result.metafile.outputs)) console.log(name, made.bytes);
