import { inspect } from "node:util";

// Reports what became of each test as `go test -json` does: the conformance command
// reads both alike.
export default async function* report(source) {
  for await (const { type, data } of source) {
    if (type !== "test:pass" && type !== "test:fail") continue;
    const test = data.name.replaceAll("/", "∕"); // a slash would part it
    if (type === "test:fail") yield line({ Action: "output", Test: test, Output: `Error: ${cause(data.details?.error)}\n` });
    yield line({ Action: data.skip !== undefined ? "skip" : type.slice("test:".length), Test: test });
  }
}

const line = (event) => JSON.stringify(event) + "\n";

const cause = (error) => {
  const inner = error?.cause ?? error;
  return String(inner?.stack ?? inner?.message ?? inspect(inner)).split("\n").slice(0, 12).join("\n");
};
