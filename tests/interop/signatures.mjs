// Tasks of every kind of body go through gateways with one secret and with two, to a receiver here. Each webhook must be
// right by each secret in force and by no other, for the library standardwebhooks and for each verify() in the README.
import assert from "node:assert/strict";
import { isUtf8 } from "node:buffer";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [duepost, library, readmePath] = process.argv.slice(2);
const { Webhook } = createRequire(join(library, "package.json"))("standardwebhooks");
const readme = readFileSync(readmePath, "utf8");
const work = mkdtempSync(join(tmpdir(), "duepost-interop-"));

const OLD = "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u"; // 24 bytes
const NEW = "whsec_" + Buffer.alloc(64, "new-key.").toString("base64"); // 64 bytes, and padding
const OTHER = "whsec_" + Buffer.alloc(32, "x").toString("base64");

const BODIES = [
  { payload: { n: 1.0, text: "h\u00e9 \u20ac" } },
  { payload: [1e2, null, "a\\/b"] },
  { body: "line\r\nline\n" },
  { body: "" },
  { body_base64: Buffer.from([0, 255, 10, 13, 128]).toString("base64") },
  {},
];

// --- a receiver: the first attempt of each task fails, so that a second one is signed anew ---

const webhooks = [];
const receiver = createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    webhooks.push({ headers: request.headers, body: Buffer.concat(chunks) });
    response.writeHead(request.headers["duepost-attempt"] === "1" ? 500 : 204).end();
  });
});
receiver.listen(0, "127.0.0.1");
await once(receiver, "listening");
const target = `http://127.0.0.1:${receiver.address().port}/hook`;

async function until(condition, what) {
  for (const end = Date.now() + 20000; !condition(); await new Promise((next) => setTimeout(next, 20)))
    assert(Date.now() < end, `waited too long for ${what}`);
}

async function collect(secrets) {
  const args = ["--listen", "127.0.0.1:0", "--data-dir", join(work, "data"), "--allow-net", "127.0.0.0/8"];
  const env = { ...process.env, DUEPOST_SIGNING_SECRET: secrets, DUEPOST_LOG_LEVEL: "error" };
  const gateway = spawn(duepost, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(gateway, "exit");
  let ready = "";
  gateway.stdout.on("data", (text) => (ready += text));
  try {
    await until(() => ready.includes("\n"), "the gateway");
    webhooks.length = 0;
    for (const body of BODIES) {
      const task = { url: target, retry: { schedule: [1] }, ...body };
      const answer = await fetch(`${ready.trim().split(" ").pop()}/tasks`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(task),
      });
      assert.equal(answer.status, 201, await answer.text());
    }
    await until(() => webhooks.length >= 2 * BODIES.length, "the webhooks");
    return [...webhooks];
  } finally {
    gateway.kill("SIGTERM");
    assert.deepEqual(await ended, [0, null]);
  }
}

// --- verifiers: (secret, headers, body) -> whether they are right ---

// The README's code block in this language that holds this text.
function block(language, text) {
  const found = [...readme.matchAll(/^```(\w+)\n(.*?)^```$/gms)].find((b) => b[1] === language && b[2].includes(text));
  assert(found, `README.md has no ${language} block with ${text}`);
  return found[2];
}

function byLibrary(secret, headers, body) {
  try {
    new Webhook(secret).verify(body.toString(), headers, { jsonParse: false });
    return true;
  } catch (error) {
    assert.match(error.message, /^(No matching signature found|Message timestamp too old)$/);
    return false;
  }
}

const nodeVerify = new Function("require", `${block("js", "verify(")}; return verify;`)(createRequire(import.meta.url));

function byPython(secret, headers, body) {
  const driver = `
import sys, json
request = json.load(sys.stdin)
print(verify(request["secret"], request["headers"], base64.b64decode(request["body"])))`;
  const input = JSON.stringify({ secret, headers, body: body.toString("base64") });
  return execFileSync("python3", ["-c", block("python", "def verify") + driver], { input }).toString().trim() === "True";
}

function byShell(secret, headers, body) {
  writeFileSync(join(work, "body"), body);
  const env = { ...process.env, secret, id: headers["webhook-id"], timestamp: headers["webhook-timestamp"] };
  const expected = execFileSync("sh", ["-c", block("sh", "openssl dgst")], { env, cwd: work }).toString().trim();
  return headers["webhook-signature"].split(" ").includes("v1," + expected);
}

// --- the same for languages that are compiled: all at once, at the end, where they are installed ---

const later = []; // [secret, headers, body, isRight]

function line([secret, headers, body]) {
  const names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
  return [secret, ...names.map((name) => headers[name]), body.toString("base64")].join("\t") + "\n";
}

function compareLater(language, command, args, files) {
  for (const [name, text] of Object.entries(files)) writeFileSync(join(work, name), text);
  let output;
  try {
    const env = { ...process.env, GOCACHE: join(work, "go"), GOFLAGS: "-mod=mod", GO111MODULE: "off" };
    output = execFileSync(command, args, { cwd: work, env, input: later.map(line).join("") }).toString();
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
    console.log(`interop: ${command} is not installed, the README's ${language} was not run`);
    return;
  }
  const expected = later.map((each) => `${each[3]}\n`).join("");
  assert.equal(output, expected, language);
  console.log(`interop: ${later.length} signatures checked by the README's ${language}`);
}

function runGo() {
  const source = block("go", "func verify").replace("import (", 'import (\n\t"bufio"\n\t"os"');
  const main = `
func main() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		part := strings.Split(lines.Text(), "\\t")
		body, _ := base64.StdEncoding.DecodeString(part[4])
		headers := http.Header{}
		for i, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
			headers.Set(name, part[i+1])
		}
		fmt.Println(verify(part[0], headers, body))
	}
}
`;
  compareLater("Go", "go", ["run", "verify.go"], { "verify.go": `package main\n\n${source}${main}` });
}

function runJava() {
  const main = `
class Main {
    public static void main(String[] args) throws Exception {
        for (var lines = new java.util.Scanner(System.in, UTF_8); lines.hasNextLine();) {
            var part = lines.nextLine().split("\\t", -1);
            var headers = new Headers();
            headers.add("webhook-id", part[1]);
            headers.add("webhook-timestamp", part[2]);
            headers.add("webhook-signature", part[3]);
            System.out.println(Webhook.verify(part[0], headers, Base64.getDecoder().decode(part[4])));
        }
    }
}
`;
  const source = block("java", "boolean verify").replace("class Webhook {", `${main}\nclass Webhook {`);
  compareLater("Java", "java", ["Main.java"], { "Main.java": source });
}

// --- the test ---

const verifiers = { standardwebhooks: byLibrary, node: nodeVerify, python: byPython, openssl: byShell };
let checks = 0;

function expect(name, isRight, secret, headers, body, what) {
  assert.equal(verifiers[name](secret, headers, body), isRight, `${name}: ${what}`);
  if (name === "node") later.push([secret, headers, body, isRight]);
  checks++;
}

function check(name, { headers, body }, right, wrong) {
  if (name === "standardwebhooks" && !isUtf8(body)) return; // it takes bodies as text
  for (const secret of right) {
    expect(name, true, secret, headers, body, `${secret} signs ${headers["webhook-id"]}`);
    const other = Buffer.concat([body, Buffer.from(" ")]);
    expect(name, false, secret, headers, other, "a changed body");
    expect(name, false, secret, { ...headers, "webhook-id": "other" }, body, "another id");
  }
  for (const secret of wrong) expect(name, false, secret, headers, body, `${secret} signs nothing`);
  if (name === "openssl") return; // which leaves the time to its caller
  const old = { ...headers, "webhook-timestamp": String(headers["webhook-timestamp"] - 600) };
  expect(name, false, right[0], old, body, "another time");
}

try {
  const rounds = [
    { secrets: `${OLD},${NEW}`, right: [OLD, NEW], wrong: [OTHER] },
    { secrets: NEW.replace(/=+$/, ""), right: [NEW], wrong: [OLD, OTHER] }, // the old one removed, padding left out
  ];
  for (const { secrets, right, wrong } of rounds) {
    for (const webhook of await collect(secrets)) {
      assert.equal(webhook.headers["webhook-signature"].split(" ").length, right.length);
      for (const name of Object.keys(verifiers)) check(name, webhook, right, wrong);
    }
  }
  runGo();
  runJava();
  console.log(`interop: ${checks} signatures checked by ${Object.keys(verifiers).join(", ")}`);
} finally {
  receiver.close();
  receiver.closeAllConnections();
  rmSync(work, { recursive: true, force: true });
}
