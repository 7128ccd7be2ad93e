// The claims about the client, against a gateway and an upstream of the tests
// of ration. Each function of tests is called with each library's client.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { createRequire } from "node:module";
import { Gateway, LedgerDown, Refused, Rejected, dispatcher, guarded } from "./ration.mjs";
import { adapter } from "./axios.mjs";

const require = createRequire(import.meta.url); // which looks in NODE_PATH
const axios = require("axios");
const undici = require("undici");
const [HOST, OTHER, AWAY] = ["HOST", "OTHER", "AWAY"].map((name) => `http://${process.env[name]}`);
const [ca, cert, key] = ["ca", "cert", "key"].map((name) => readFileSync(`${process.env.TLS_FILES}/${name}.pem`));

// Returns what an answer of fetch is.
async function ofFetch(response) {
  const headers = Object.fromEntries(response.headers);
  return { status: response.status, headers, text: await response.text(), cookies: response.headers.get("set-cookie")?.split(", ") };
}

const clients = {
  fetch({ tls, ...options } = {}) {
    if (tls) options.agent = new undici.Agent({ connect: tls });
    const fetch = guarded(options);
    return async (method, url, { headers, body } = {}) => ofFetch(await fetch(url, { method, headers, body }));
  },
  undici({ tls, ...options } = {}) {
    const through = dispatcher({ ...options, agent: new undici.Agent(tls ? { connect: tls } : {}) });
    return async (method, url, { headers, body } = {}) => {
      const response = await undici.fetch(url, { method, headers, body, dispatcher: through }).catch((error) => {
        throw error.cause;
      });
      return ofFetch(response);
    };
  },
  axios({ tls, ...options } = {}) {
    const client = axios.create({ adapter: adapter(axios, options), httpsAgent: new https.Agent(tls ?? {}), validateStatus: null });
    return async (method, url, { headers, body } = {}) => {
      const response = await client.request({ method, url, headers, data: body, transformResponse: [] });
      return { status: response.status, headers: response.headers, text: response.data, cookies: response.headers["set-cookie"] };
    };
  },
};

async function get(url) {
  const request = http.get(url, { agent: false });
  const [response] = await new Promise((resolve, reject) => request.on("response", (...args) => resolve(args)).on("error", reject));
  let text = "";
  for await (const chunk of response) text += chunk;
  return text;
}

const seen = async (want) => assert.deepEqual((await get(`${HOST}/seen`)).split("\n"), want);

const tests = {
  async "a request is charged and passes"(open) {
    const answer = await open({ job: "import", maxWait: "5s" })("POST", `${HOST}/v1/items?a=%2F&b`, { body: "text" });
    const echo = JSON.parse(answer.text);
    assert.deepEqual([echo.method, echo.path, echo.body], ["POST", "/v1/items?a=%2F&b", "text"]);
    assert.equal((await new Gateway().grant(answer.headers["ration-grant"]).settle(2)).units, 2);
    await seen(["POST /v1/items?a=%2F&b text"]);
  },

  async "a redirect keeps method and body only if it says so"(open) {
    for (const [status, want] of [[302, "GET /v1/there"], [303, "GET /v1/there"], [307, "POST /v1/there text"]]) {
      assert.equal((await open()("POST", `${HOST}/v1/${status}`, { body: "text" })).status, 200);
      await seen([`POST /v1/${status} text`, want]);
    }
  },

  async "links lead to the next page"(open) {
    const send = open();
    const [, next] = (await send("GET", `${HOST}/v1/page`)).headers.link.match(/<([^>]*)>; rel="next"/);
    assert.equal((await send("GET", next)).status, 200);
    await seen(["GET /v1/page", "GET /v1/next"]);
  },

  async "another host learns no secret"(open) {
    const headers = { Authorization: "secret" };
    assert.equal((await open()("GET", `${HOST}/v1/302`, { headers })).status, 200);
    assert.equal((await open()("GET", `${HOST}/v1/other`, { headers })).status, 200);
    await assert.rejects(open()("GET", `${HOST}/v1/away`, { headers }), /is not guarded|not a host of costs.yaml/);
    await seen(["GET /v1/302 secret", "GET /v1/there secret", "GET /v1/other secret", "GET /v1/there", "GET /v1/away secret"]);
  },

  async "cookies have the upstream's paths"(open) {
    const { cookies } = await open()("GET", `${HOST}/v1/login`);
    const paths = cookies.map((cookie) => cookie.match(/Path=([^;]*)/)[1]);
    assert.deepEqual(paths, ["/", "/v1", "/elsewhere"]);
    await seen(["GET /v1/login"]);
  },

  async "a refusal says what is left and when to come back"(open) {
    const refused = await open()("GET", `${HOST}/v1/spent`).catch((error) => error);
    assert.ok(refused instanceof Refused, refused);
    const { budget, limit, used, remaining, shortfall, type } = refused;
    assert.deepEqual({ budget, limit, used, remaining, shortfall, type }, { budget: "spent", limit: 5, used: 3, remaining: 2, shortfall: 1, type: "refused" });
    const wait = refused.retryAt - Date.now();
    assert.ok(wait > 0 && wait <= 86400e3 && refused.retryAfter > 0 && refused.retryAfter <= 86400, `${refused.retryAt}, ${refused.retryAfter}`);
    assert.match(refused.message, /spent has 2 of 5 units left/);
    const head = await open()("HEAD", `${HOST}/v1/spent`).catch((error) => error);
    assert.ok(head instanceof Refused && head.budget === "spent", head);
    await seen([""]);
  },

  async "the gateway's errors are not the upstream's"(open) {
    const down = await open({ url: process.env.DOWN_URL })("GET", `${HOST}/v1/items`).catch((error) => error);
    assert.ok(down instanceof LedgerDown && down.status === 503 && down.type === "ledger-down" && down.retryAfter === 1, down);
    const rejected = await open()("GET", `${AWAY}/v1/items`).catch((error) => error);
    assert.ok(rejected instanceof Rejected && rejected.status === 403 && rejected.type === "not-guarded" && /costs.yaml/.test(rejected.detail), rejected);
    const stranger = await open({ token: "wrong" })("GET", `${HOST}/v1/items`).catch((error) => error);
    assert.ok(stranger instanceof Rejected && stranger.status === 401, stranger);
    await seen([""]);
    const failed = await open()("GET", `${HOST}/v1/failed`);
    assert.deepEqual([failed.status, failed.text], [503, "the upstream's own\n"]);
    await seen(["GET /v1/failed"]);
  },

  async "the connection to the gateway has its TLS"(open) {
    const url = process.env.TLS_URL;
    assert.equal((await open({ url, tls: { ca, cert, key } })("GET", `${HOST}/v1/items`)).status, 200);
    await assert.rejects(open({ url })("GET", `${HOST}/v1/items`));
    await seen(["GET /v1/items"]);
  },

  async "a program asks and reports"() {
    const gateway = new Gateway({ job: "asks", region: "north" });
    const options = { calls: 2, idempotencyKey: "page 3" };
    const grant = await gateway.spend("items.get", options);
    assert.deepEqual([grant.answer.calls, grant.answer.limit], [2, 1000]);
    options.idempotencyKey = "page 4";
    const again = [await gateway.spend("items.get", options), await gateway.spend("items.get", options)];
    assert.equal(again[0].token, again[1].token);
    assert.equal((await grant.report(200, new Headers({ "Content-Type": "text/plain" }), { body: "text", units: 4 })).units, 4);
    assert.equal((await grant.settle(5)).units, 5);
    assert.equal((await grant.refund()).units, 0);
    await assert.rejects(gateway.spend("items.spent"), (error) => error instanceof Refused && error.shortfall === 1);
    await assert.rejects(gateway.spend("items.got"), (error) => error instanceof Rejected && error.type === "unknown-method");
    assert.equal((await gateway.spend(undefined, { verb: "POST", url: `${HOST}/v1/items` })).answer.method, "items.insert");
    const client = `client ${Math.random()}`;
    const allowed = [];
    for (let i = 0; i < 3; i++) allowed.push((await gateway.limit(client, 2, "1h")).allowed);
    assert.deepEqual(allowed, [true, true, false]);
    const limit = await gateway.limit(client, 2, "1h");
    assert.ok(limit.remaining === 0 && limit.retryAfter > 0 && limit.retryAfter <= 3600 && limit.retryAt > new Date(), JSON.stringify(limit));
  },
};

clients.global = (options) => {
  const before = undici.getGlobalDispatcher();
  undici.setGlobalDispatcher(dispatcher(options));
  return async (method, url, { headers, body } = {}) => {
    try {
      return await ofFetch(await fetch(url, { method, headers, body }));
    } catch (error) {
      throw error.cause;
    } finally {
      undici.setGlobalDispatcher(before);
    }
  };
};
clients.global.skips = "the connection to the gateway has its TLS";

for (const [library, open] of Object.entries(clients)) {
  for (const [claim, test] of Object.entries(tests)) {
    if (open.skips === claim) continue;
    try {
      await test(open);
    } catch (error) {
      console.error(`${library}: ${claim}\n${error.stack}`);
      await get(`${HOST}/seen`);
      process.exitCode = 1;
    }
  }
}
process.exit(); // without waiting for idle connections
