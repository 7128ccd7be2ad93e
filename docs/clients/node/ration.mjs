// Guards the requests of fetch with the gateway of ration (ration proxy, serve
// or exec):
//
//   import { guarded } from "./ration.mjs";
//   const fetch = guarded({ job: "import" });
//   const items = await (await fetch("https://api.example.com/v1/items")).json();
//
// The gateway is the one that RATION_URL names, http://127.0.0.1:8377 by
// default; RATION_TOKEN is its token, if it wants one. ration exec and command:
// steps set both. A request that a budget or a cooldown refuses was not sent,
// and rejects with Refused.

/** The exit code that tells ration and cron: go on later. */
export const EXIT_STOPPED = 75;

/** The call does not fit its budget now. It was not sent, and cost nothing. */
export class Refused extends Error {
  constructor(problem, retryAfter) {
    super(problem.why ?? problem.detail ?? "refused");
    this.name = "Refused";
    this.budget = problem.budget ?? null;
    this.retryAt = problem.retry_at ? new Date(problem.retry_at) : null;
    this.retryAfter = retryAfter; // seconds
  }
}

/**
 * Returns a fetch whose requests are guarded. job, region and lane say who
 * calls; maxWait is how long a request may wait for its units, as in "30s". A
 * redirect to a host that is not guarded rejects with a TypeError. The address may
 * be that of a Link header, /to/HOST/PATH.
 */
export function guarded({ job, region, lane, maxWait } = {}) {
  const gateway = (process.env.RATION_URL ?? "http://127.0.0.1:8377").replace(/\/+$/, "");
  if (!gateway.startsWith("http://")) {
    throw new TypeError(`RATION_URL: fetch needs an http:// address, not ${gateway}`);
  }
  const own = {
    "Ration-Token": process.env.RATION_TOKEN,
    "Ration-Job": job,
    "Ration-Region": region,
    "Ration-Lane": lane,
    "Ration-Max-Wait": maxWait,
  };
  return async function fetchGuarded(input, init) {
    const request = new Request(typeof input === "string" ? input.replace(/^\/to\//, "https://") : input, init);
    const target = new URL(request.url);
    const headers = new Headers(request.headers);
    for (const [name, value] of Object.entries(own)) {
      if (value !== undefined) headers.set(name, value);
    }
    let path = `/to/${target.host}${target.pathname}${target.search}`;
    let { method } = request;
    let body = request.body ? await request.arrayBuffer() : null; // whole, so that it has a Content-Length
    let response;
    for (let hops = 0; ; hops++) {
      response = await fetch(gateway + path, {
        method,
        headers,
        body,
        redirect: request.redirect === "follow" ? "manual" : request.redirect,
        signal: request.signal,
      });
      const { status } = response;
      const location = response.headers.get("Location");
      if (request.redirect !== "follow" || !location || ![301, 302, 303, 307, 308].includes(status)) break;
      await response.body?.cancel();
      // Not by fetch, which would send the token to wherever the redirect leads.
      if (!location.startsWith("/to/")) throw new TypeError(`a redirect leads to ${location}, which is not guarded`);
      if (hops === 20) throw new TypeError("too many redirects");
      if (status === 303 ? method !== "HEAD" : status < 303 && method === "POST") {
        [method, body] = ["GET", null];
        for (const name of ["Content-Encoding", "Content-Language", "Content-Location", "Content-Type"]) headers.delete(name);
      }
      if (location.split("/")[2] !== path.split("/")[2]) { // another host, which must not learn them
        for (const name of ["Authorization", "Cookie"]) headers.delete(name);
      }
      path = location;
    }
    if (response.status === 429 && response.headers.has("Ration-Refused-By")) {
      const problem = method === "HEAD" ? { detail: response.headers.get("Ration-Detail") } : await response.json();
      throw new Refused(problem, Number(response.headers.get("Retry-After") ?? 1));
    }
    return response;
  };
}
