// Asks for videos until the budget is spent: prints how many answers came.
import { createRequire } from "node:module";
import { EXIT_STOPPED, Refused, dispatcher, guarded } from "./ration.mjs";
import { adapter } from "./axios.mjs";

const url = "https://www.googleapis.com/youtube/v3/videos?part=id&chart=mostPopular&regionCode=IN";
const require = createRequire(import.meta.url);
const clients = {
  fetch() {
    const fetch = guarded({ job: "node" });
    return async () => {
      const response = await fetch(url);
      if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
      await response.json();
    };
  },
  undici() {
    const { Agent, request } = require("undici");
    const through = dispatcher({ job: "node", agent: new Agent() });
    return async () => (await request(url, { dispatcher: through, throwOnError: true, headers: { "user-agent": "undici" } })).body.json();
  },
  axios() {
    const axios = require("axios");
    const client = axios.create({ adapter: adapter(axios, { job: "node" }) });
    return () => client.get(url);
  },
};

const get = clients[process.argv[2] ?? "fetch"]();
let answers = 0;
try {
  for (;;) {
    await get();
    answers++;
  }
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.log(answers);
  console.error("stopped until", error.retryAt);
  process.exitCode = EXIT_STOPPED;
}
