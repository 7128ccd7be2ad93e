// Guards HTTP requests with the gateway of ration (ration proxy, serve or exec):
//
//   import { guarded } from "ration";
//   const fetch = guarded({ job: "import" });
//   const items = await (await fetch("https://api.example.com/v1/items")).json();
//
// dispatcher does so for undici, and "ration/axios" for axios. A program that
// sends its requests by other means asks before each, and reports:
//
//   const grant = await new Gateway({ job: "import" }).spend("items.list");
//   await grant.report(response.status, response.headers);
//
// The gateway is the one that RATION_URL names, http://127.0.0.1:8377 by
// default; RATION_TOKEN is its token, if it wants one. ration exec and command:
// steps set both. A request that a budget or a cooldown refuses was not sent,
// and rejects with Refused.

/** The exit code that tells ration and cron: go on later. */
export const EXIT_STOPPED = 75;

/**
 * The gateway's own answer, which the upstream has not given. status, type
 * (such as "ledger-down") and detail say what it is; problem has all of its
 * document. retryAfter is in seconds, or null.
 */
export class RationError extends Error {
  constructor(status, problem, header) {
    super(problem.why ?? problem.detail);
    this.name = new.target.name;
    this.status = status;
    this.type = problem.type?.split(":").pop();
    this.detail = problem.detail;
    this.retryAfter = header("retry-after") ? Number(header("retry-after")) : null;
    this.problem = problem;
  }
}

/**
 * The call does not fit its budget now. It was not sent, and cost nothing.
 * budget, limit, used, remaining and shortfall are null if they are unknown, as
 * in a cooldown. retryAt is a Date.
 */
export class Refused extends RationError {
  constructor(status, problem, header) {
    super(status, problem, header);
    for (const name of ["limit", "used", "remaining", "shortfall", "reason"]) this[name] = problem[name] ?? null;
    this.budget = problem.budget ?? header("ration-refused-by") ?? null;
    this.retryAt = dateOf(problem.retry_at);
  }
}

/** The ledger is down, busy or misconfigured, and the call was not sent. */
export class LedgerDown extends RationError {}

/**
 * A mistake in the request, the token or costs.yaml, such as a host that is not
 * guarded or a call that never fits. To repeat it does not help.
 */
export class Rejected extends RationError {}

/**
 * Returns the error that an answer with a Ration-Detail header is. Those of the
 * upstream have none. header returns a header by its name in lower case.
 */
export function errorOf(status, header, body) {
  let problem = { detail: header("ration-detail") };
  if (body.length > 0) problem = JSON.parse(body); // empty of HEAD
  const Kind = status === 429 ? Refused : status === 503 ? LedgerDown : status < 500 ? Rejected : RationError;
  return new Kind(status, problem, header);
}

const dateOf = (text) => (text ? new Date(text) : null);

/**
 * Where requests are charged. job, region, lane and key say who calls; maxWait
 * is how long a request may wait for its units, as in "30s". url and token are
 * those of the environment by default. agent is an undici dispatcher for the
 * connection to the gateway, such as one with certificates or a proxy.
 */
export class Gateway {
  constructor({ job, region, lane, key, maxWait, url, token, agent } = {}) {
    this.url = (url ?? (process.env.RATION_URL || "http://127.0.0.1:8377")).replace(/\/+$/, "");
    if (!/^https?:\/\//.test(this.url)) {
      throw new TypeError(`RATION_URL: Node's client needs an http:// or https:// address, not ${this.url}`);
    }
    this.agent = agent;
    this.caller = { job, region, lane, key, max_wait: maxWait };
    this.token = token ?? (process.env.RATION_TOKEN || undefined);
    const own = { token: this.token, job, region, lane, key, "max-wait": maxWait };
    this.headers = Object.entries(own).filter(([, value]) => value !== undefined).map(([name, value]) => [`ration-${name}`, String(value)]);
  }

  /** Charges calls of a method, or of the request verb url, and returns their Grant. Rejects with Refused. */
  async spend(method, { calls, units, amounts, upstream, verb, url, idempotencyKey } = {}) {
    const asked = { method, calls, units, amounts, upstream, verb, url, ...this.caller };
    const answer = await this.post("/v1/spend", asked, idempotencyKey === undefined ? {} : { "Idempotency-Key": idempotencyKey });
    return new Grant(this, answer.grant, answer);
  }

  /** The Grant of a token: that of a spend, or of the header Ration-Grant of a guarded answer. */
  grant(token) {
    return new Grant(this, token, {});
  }

  /**
   * Counts a request of a client of your own, if it fits limit in window, such
   * as "1m". Returns allowed, limit, remaining, retryAfter (seconds, or null)
   * and retryAt.
   */
  async limit(client, limit, window, estimate = false) {
    const answer = await this.post("/v1/limit", { client, limit, window, estimate }).catch((error) => {
      if (error instanceof Refused) return error.problem;
      throw error;
    });
    const { allowed, remaining, retry_after_s: retryAfter } = answer;
    return { allowed, limit, remaining, retryAfter, retryAt: dateOf(answer.retry_at) };
  }

  /** Posts a document to the gateway's API and returns the answer's. */
  async post(path, document, headers = {}) {
    const own = { "Content-Type": "application/json", ...headers };
    if (this.token !== undefined) own["Ration-Token"] = this.token;
    const response = await fetch(this.url + path, { method: "POST", headers: own, body: JSON.stringify(document), dispatcher: this.agent });
    const body = await response.text();
    if (response.headers.has("Ration-Detail")) throw errorOf(response.status, (name) => response.headers.get(name), body);
    if (!response.ok) throw new Error(`${this.url}${path}: ${response.status}`);
    return JSON.parse(body);
  }
}

/** An admitted call. token is what names it; answer is the gateway's document, such as answer.remaining. */
export class Grant {
  constructor(gateway, token, answer) {
    Object.assign(this, { gateway, token, answer });
  }

  /** Replaces what the call was charged by what it really cost. */
  settle(units, amounts) {
    return this.#post("settle", { units, amounts });
  }

  /** Returns the units of a call that was never sent. */
  refund() {
    return this.#post("refund", {});
  }

  /** Says what the upstream answered, and returns what that did. headers are of fetch, or an object. */
  report(status, headers = {}, { body, units, amounts } = {}) {
    const values = Object.fromEntries(headers instanceof Headers ? headers : Object.entries(headers));
    return this.#post("report", { status, headers: values, body, units, amounts });
  }

  #post(what, document) {
    return this.gateway.post(`/v1/grants/${encodeURIComponent(this.token)}/${what}`, document);
  }
}

/** Returns the value of a header of an answer with the upstream's own addresses, in place of the gateway's. */
export function leadBack(protocol, name, value) {
  switch (name) {
    case "location":
      return value.replace(/^\/to\//, `${protocol}//`);
    case "link":
      return value.replaceAll("</to/", `<${protocol}//`);
    case "set-cookie":
      return value.replace(/; Path=\/to\/[^/;]*(?=[^;]*$)/, "; Path=");
  }
  return value;
}

/**
 * Returns an undici dispatcher whose requests are guarded: for undici's fetch,
 * request and others, setGlobalDispatcher, or the dispatcher of Node's fetch.
 * The options are those of Gateway. fetch's redirects are followed; those that
 * undici follows itself, for maxRedirections, are not.
 */
export function dispatcher(options) {
  const gateway = new Gateway(options);
  const { origin: to, pathname } = new URL(gateway.url);
  const shared = () => globalThis[Symbol.for("undici.globalDispatcher.1")]; // Node's and undici's, once one is loaded
  const base = gateway.agent ?? shared(); // setGlobalDispatcher may replace it by this one
  return {
    dispatch({ origin, path, headers, ...rest }, handler) {
      const { protocol, host, origin: from } = new URL(origin);
      const agent = base ?? shared();
      if (from === to) return agent.dispatch({ origin, path, headers, ...rest }, handler); // of a Gateway
      const inner = { ...rest, maxRedirections: 0, origin: to, path: `${pathname.replace(/\/$/, "")}/to/${host}${path}`, headers: gateway.headers.concat(pairsOf(headers)).flat() };
      return agent.dispatch(inner, handler.onRequestStart ? handlerOf(protocol, handler) : legacyHandlerOf(protocol, handler));
    },
    close: async () => gateway.agent?.close(),
    destroy: async () => gateway.agent?.destroy(),
  };
}

/** The headers of a request to undici, in any of its forms, without Host. */
function pairsOf(headers) {
  let pairs = [];
  if (Array.isArray(headers)) {
    for (let i = 0; i < headers.length; i += 2) pairs.push([headers[i], headers[i + 1]]);
  } else if (headers) {
    pairs = headers[Symbol.iterator] ? [...headers] : Object.entries(headers);
  }
  return pairs.filter(([name]) => String(name).toLowerCase() !== "host").flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
}

/** A handler with some methods of its own. */
function overriding(handler, methods) {
  return new Proxy(handler, {
    get(target, name) {
      if (Object.hasOwn(methods, name)) return methods[name];
      return typeof target[name] === "function" ? target[name].bind(target) : target[name];
    },
  });
}

/** Leads the headers of an answer back, and makes an error of the gateway's own. */
function handlerOf(protocol, handler) {
  let failed = null;
  const body = [];
  return overriding(handler, {
    onResponseStart(controller, status, headers, message) {
      if (headers["ration-detail"]) {
        failed = { status, headers };
        return;
      }
      const led = Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.map((one) => leadBack(protocol, name, one)) : leadBack(protocol, name, value)]);
      handler.onResponseStart(controller, status, Object.fromEntries(led), message);
    },
    onResponseData(controller, chunk) {
      if (failed) body.push(chunk);
      else handler.onResponseData(controller, chunk);
    },
    onResponseEnd(controller, trailers) {
      if (failed) handler.onResponseError(controller, errorOf(failed.status, (name) => failed.headers[name], Buffer.concat(body)));
      else handler.onResponseEnd(controller, trailers);
    },
  });
}

/** handlerOf for the handlers of undici 6 and before, whose headers are a list of names and values. */
function legacyHandlerOf(protocol, handler) {
  let failed = null;
  const body = [];
  return overriding(handler, {
    onHeaders(status, raw, resume, message) {
      const names = raw.map((part, i) => String(raw[i - (i % 2)]).toLowerCase()); // of each name and value
      const header = (name) => raw[names.lastIndexOf(name)]?.toString("latin1");
      if (!header("ration-detail")) {
        const led = raw.map((part, i) => (i % 2 ? Buffer.from(leadBack(protocol, names[i], part.toString("latin1")), "latin1") : part));
        return handler.onHeaders(status, led, resume, message);
      }
      failed = { status, header };
      return true;
    },
    onData(chunk) {
      if (!failed) return handler.onData(chunk);
      body.push(chunk);
      return true;
    },
    onComplete(trailers) {
      if (failed) handler.onError(errorOf(failed.status, failed.header, Buffer.concat(body)));
      else handler.onComplete(trailers);
    },
  });
}

/**
 * Returns a fetch whose requests are guarded. The options are those of Gateway.
 * A redirect to a host that is not guarded rejects with Rejected.
 */
export function guarded(options) {
  const through = dispatcher(options);
  return async function fetchGuarded(input, init) {
    try {
      return await fetch(input, { ...init, dispatcher: through });
    } catch (error) {
      throw error.cause instanceof RationError ? error.cause : error;
    }
  };
}
