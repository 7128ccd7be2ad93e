// Guards the requests of axios with the gateway of ration:
//
//   import axios from "axios";
//   import { adapter } from "ration/axios";
//   const client = axios.create({ adapter: adapter(axios, { job: "import" }) });
//   const { data } = await client.get("https://api.example.com/v1/items");
//
// A request that is refused rejects with Refused of "ration".

import { Gateway, errorOf, leadBack } from "./ration.mjs";

/**
 * Returns an adapter. The options are those of Gateway. httpAgent, httpsAgent
 * and proxy of a request are for the connection to the gateway.
 */
export function adapter(axios, options) {
  const gateway = new Gateway(options);
  const isLocal = /^(localhost|127\..*|\[::1\])$/.test(new URL(gateway.url).hostname); // which no proxy can reach
  const plain = axios.create({ adapter: "http", transformRequest: [], transformResponse: [] });
  return async function guarded(config) {
    const url = new URL(axios.getUri(config));
    const path = `/to/${url.host}${url.pathname}${url.search}`;
    let { host } = url;
    const response = await plain.request({
      ...config,
      adapter: "http",
      baseURL: undefined,
      params: undefined,
      transformRequest: [],
      transformResponse: [],
      validateStatus: null,
      url: gateway.url + path,
      headers: { ...plainHeaders(config.headers), ...Object.fromEntries(gateway.headers), host: undefined },
      proxy: isLocal ? false : config.proxy,
      beforeRedirect(redirect, details) {
        if (!redirect.href.startsWith(`${gateway.url}/to/`)) throw new TypeError(`a redirect leads to ${redirect.href}, which is not guarded`);
        const [next] = redirect.href.slice(`${gateway.url}/to/`.length).split("/");
        if (next !== host) { // which must not learn them
          for (const name of Object.keys(redirect.headers)) if (/^(authorization|cookie)$/i.test(name)) delete redirect.headers[name];
          delete redirect.auth;
        }
        host = next;
        config.beforeRedirect?.(redirect, details);
      },
    });
    const header = (name) => response.headers[name];
    if (header("ration-detail")) throw errorOf(response.status, header, await textOf(response.data));
    for (const [name, value] of Object.entries(response.headers)) {
      response.headers[name] = Array.isArray(value) ? value.map((one) => leadBack(url.protocol, name, one)) : leadBack(url.protocol, name, value);
    }
    response.config = config;
    if (!config.validateStatus || config.validateStatus(response.status)) return response;
    const code = response.status < 500 ? axios.AxiosError.ERR_BAD_REQUEST : axios.AxiosError.ERR_BAD_RESPONSE;
    throw new axios.AxiosError(`Request failed with status code ${response.status}`, code, config, response.request, response);
  };
}

const plainHeaders = (headers) => (headers?.toJSON ? headers.toJSON() : headers);

/** The text of a body in any of axios' types. */
async function textOf(data) {
  if (typeof data === "string") return data;
  if (data instanceof ArrayBuffer) return Buffer.from(data).toString();
  if (Buffer.isBuffer(data)) return data.toString();
  let text = "";
  for await (const chunk of data) text += chunk;
  return text;
}
