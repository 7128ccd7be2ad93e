<?php
// Guards HTTP requests with the gateway of ration (ration proxy, serve or exec):
//
//   require 'ration.php'; // or composer's autoloader
//   $gateway = new Ration\Gateway(job: 'import');
//   $items = $gateway->request('GET', 'https://api.example.com/v1/items');
//   print_r(json_decode($items['body']));
//
// or those of Guzzle:
//
//   $stack = GuzzleHttp\HandlerStack::create();
//   $stack->push($gateway->middleware());
//   $client = new GuzzleHttp\Client(['handler' => $stack]);
//
// The gateway is the one that RATION_URL names, http://127.0.0.1:8377 by default,
// or unix:PATH for a socket; RATION_TOKEN is its token, if it wants one. ration
// exec and command: steps set both. A request that a budget or a cooldown refuses
// was not sent, and throws Ration\Refused.

namespace Ration;

/** The exit code that tells ration and cron: go on later. */
const EXIT_STOPPED = 75;

/**
 * The gateway's own answer, which the upstream has not given. type (such as
 * ledger-down) and detail say what it is, retryAfter is in seconds, and problem
 * is all of its document.
 */
class Error extends \RuntimeException
{
    public readonly ?string $type;
    public readonly string $detail;
    public readonly ?int $retryAfter;

    final public function __construct(public readonly int $status, public readonly array $problem, callable $header)
    {
        parent::__construct($problem['why'] ?? $problem['detail'], $status);
        $this->type = isset($problem['type']) ? substr(strrchr($problem['type'], ':'), 1) : null;
        $this->detail = $problem['detail'];
        $this->retryAfter = $header('retry-after') ? (int) $header('retry-after') : null;
        $this->read($header);
    }

    protected function read(callable $header): void
    {
    }

    /**
     * Returns the error that an answer with the header Ration-Detail is. Those of
     * the upstream have none.
     */
    public static function of(int $status, callable $header, string $body): self
    {
        $problem = json_decode($body, true) ?? ['detail' => $header('ration-detail')]; // of HEAD
        return match (true) {
            $status === 429 => new Refused($status, $problem, $header),
            $status === 503 => new LedgerDown($status, $problem, $header),
            $status < 500 => new Rejected($status, $problem, $header),
            default => new self($status, $problem, $header),
        };
    }
}

/**
 * The call does not fit its budget now. It was not sent, and cost nothing. limit,
 * used, remaining and shortfall are null if they are unknown, as in a cooldown.
 */
class Refused extends Error
{
    public readonly ?string $budget;
    public readonly ?int $limit;
    public readonly ?int $used;
    public readonly ?int $remaining;
    public readonly ?int $shortfall;
    public readonly ?string $reason;
    public readonly ?\DateTimeImmutable $retryAt;

    protected function read(callable $header): void
    {
        foreach (['limit', 'used', 'remaining', 'shortfall', 'reason'] as $name) {
            $this->$name = $this->problem[$name] ?? null;
        }
        $this->budget = $this->problem['budget'] ?? $header('ration-refused-by') ?: null;
        $this->retryAt = isset($this->problem['retry_at']) ? new \DateTimeImmutable($this->problem['retry_at']) : null;
    }
}

/** The ledger is down, busy or misconfigured, and the call was not sent. */
class LedgerDown extends Error
{
}

/**
 * A mistake in the request, the token or costs.yaml, such as a host that is not
 * guarded or a call that never fits. To repeat it does not help.
 */
class Rejected extends Error
{
}

/** Where requests are charged. Its connection is kept open. */
class Gateway
{
    public readonly string $url;
    private readonly array $caller;
    private readonly array $headers;
    private \CurlHandle $handle;

    /**
     * $job, $region, $lane and $key say who calls; $maxWait is how long a request
     * may wait for its units, as in 30s. $url and $token are those of the
     * environment by default. $curl has options of curl for the connection to the
     * gateway, such as CURLOPT_CAINFO or CURLOPT_PROXY.
     */
    public function __construct(
        ?string $job = null,
        ?string $region = null,
        ?string $lane = null,
        ?string $key = null,
        ?string $maxWait = null,
        ?string $url = null,
        ?string $token = null,
        private array $curl = [],
    ) {
        $url = rtrim($url ?? (getenv('RATION_URL') ?: 'http://127.0.0.1:8377'), '/');
        if (str_starts_with($url, 'unix:')) {
            $this->curl += [CURLOPT_UNIX_SOCKET_PATH => substr($url, strlen('unix:'))];
            $url = 'http://localhost';
        }
        $this->url = $url;
        if (preg_match('/^(localhost|127\..*|\[::1\])$/', parse_url($url, PHP_URL_HOST))) {
            $this->curl += [CURLOPT_PROXY => '']; // which could not reach it
        }
        $given = fn (array $values) => array_filter($values, fn ($value) => $value !== null);
        $this->caller = $given(['job' => $job, 'region' => $region, 'lane' => $lane, 'key' => $key, 'max_wait' => $maxWait]);
        $token ??= getenv('RATION_TOKEN') ?: null;
        $this->headers = $given(['Ration-Token' => $token, 'Ration-Job' => $job, 'Ration-Region' => $region,
            'Ration-Lane' => $lane, 'Ration-Key' => $key, 'Ration-Max-Wait' => $maxWait]);
        $this->handle = curl_init();
    }

    /** Returns the address of the gateway for the upstream's $url. */
    public function through(string $url): string
    {
        return $this->url . '/to/' . preg_replace('#^https?://([^/@]*@)?#i', '', $url);
    }

    /**
     * Sends a request to $url through the gateway and returns its status,
     * headers (in lower case, repeated ones joined by commas) and body. A redirect
     * to a host that is not guarded is an error.
     *
     * @param string[] $headers lines such as 'Accept: application/json'
     * @return array{status: int, headers: array<string, string>, body: string}
     */
    public function request(string $method, string $url, array $headers = [], ?string $body = null): array
    {
        for ($hops = 0; ; $hops++) {
            $own = array_map(fn ($name, $value) => "$name: $value", array_keys($this->headers), $this->headers);
            $answer = $this->send($method, $this->through($url), array_merge($headers, $own), $body);
            $location = $answer['headers']['location'] ?? '';
            $answer['headers'] = self::leadBack($url, $answer['headers']);
            if ($location === '' || !in_array($answer['status'], [301, 302, 303, 307, 308], true)) {
                return $answer;
            }
            // Not by curl, which would send the token to wherever the redirect leads.
            if (!str_starts_with($location, '/to/')) {
                throw new \RuntimeException("a redirect leads to $location, which is not guarded");
            }
            if ($hops === 20) {
                throw new \RuntimeException('too many redirects');
            }
            if ($answer['status'] === 303 ? $method !== 'HEAD' : $answer['status'] < 303 && $method === 'POST') {
                [$method, $body] = ['GET', null];
                $headers = preg_grep('/^content-/i', $headers, PREG_GREP_INVERT);
            }
            $next = $answer['headers']['location'];
            if (strtok(substr($location, 4), '/?') !== strtok(substr($this->through($url), strlen("$this->url/to/")), '/?')) {
                $headers = preg_grep('/^(authorization|cookie):/i', $headers, PREG_GREP_INVERT); // which another host must not learn
            }
            $url = $next;
        }
    }

    /**
     * Returns a middleware of Guzzle that guards all requests of its client. Push
     * it onto the stack last. Options such as verify, cert and proxy are for the
     * connection to the gateway.
     */
    public function middleware(): callable
    {
        return fn (callable $handler) => function ($request, array $options) use ($handler) {
            $upstream = (string) $request->getUri();
            $inner = $request->withUri(new \GuzzleHttp\Psr7\Uri($this->through($upstream)));
            foreach ($this->headers as $name => $value) {
                $inner = $inner->withHeader($name, $value);
            }
            $options['curl'] = ($options['curl'] ?? []) + $this->curl;
            if (($this->curl[CURLOPT_PROXY] ?? null) === '') {
                unset($options['proxy']);
            }
            return $handler($inner, $options)->then(function ($response) use ($upstream) {
                if ($response->hasHeader('Ration-Detail')) {
                    throw Error::of($response->getStatusCode(), $response->getHeaderLine(...), (string) $response->getBody());
                }
                $led = ['location' => [], 'link' => [], 'set-cookie' => []];
                foreach (array_keys($led) as $name) {
                    foreach ($response->getHeader($name) as $value) {
                        $led[$name][] = self::leadBack($upstream, [$name => $value])[$name];
                    }
                    $response = $led[$name] ? $response->withHeader($name, $led[$name]) : $response;
                }
                return $response;
            });
        };
    }

    /** Charges calls of a method, or of the request $verb $url, and returns their grant. Throws Refused. */
    public function spend(
        ?string $method = null,
        int $calls = 1,
        ?int $units = null,
        ?array $amounts = null,
        ?string $upstream = null,
        ?string $verb = null,
        ?string $url = null,
        ?string $idempotencyKey = null,
    ): Grant {
        $asked = compact('method', 'calls', 'units', 'amounts', 'upstream', 'verb', 'url') + $this->caller;
        $answer = $this->post('/v1/spend', $asked, $idempotencyKey === null ? [] : ["Idempotency-Key: $idempotencyKey"]);
        return new Grant($this, $answer['grant'], $answer);
    }

    /** Returns the grant of a token: that of a spend, or of the header Ration-Grant of a guarded answer. */
    public function grant(string $token): Grant
    {
        return new Grant($this, $token, []);
    }

    /**
     * Counts a request of a client of your own, if it fits $limit in $window, such
     * as 1m.
     *
     * @return array{allowed: bool, limit: int, remaining: int, retry_after_s: ?int, retry_at: ?string, next_free_at: ?string}
     */
    public function limit(string $client, int $limit, string $window, bool $estimate = false): array
    {
        try {
            return $this->post('/v1/limit', compact('client', 'limit', 'window', 'estimate'));
        } catch (Refused $refused) {
            return $refused->problem;
        }
    }

    /** Posts a document to the gateway's API, without what is null, and returns the answer's. */
    public function post(string $path, array $document, array $headers = []): array
    {
        $headers[] = 'Content-Type: application/json';
        if (isset($this->headers['Ration-Token'])) {
            $headers[] = 'Ration-Token: ' . $this->headers['Ration-Token'];
        }
        $body = json_encode((object) array_filter($document, fn ($value) => $value !== null));
        $answer = $this->send('POST', $this->url . $path, $headers, $body);
        if ($answer['status'] !== 200) {
            throw new \RuntimeException("$this->url$path: {$answer['status']}");
        }
        return json_decode($answer['body'], true);
    }

    /** Sends one request, and throws what the gateway answers by itself. */
    private function send(string $method, string $url, array $headers, ?string $body): array
    {
        $received = [];
        curl_reset($this->handle); // which keeps the connection
        curl_setopt_array($this->handle, $this->curl + [
            CURLOPT_URL => $url,
            CURLOPT_CUSTOMREQUEST => $method,
            CURLOPT_NOBODY => $method === 'HEAD',
            CURLOPT_HTTPHEADER => array_values($headers),
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_HEADERFUNCTION => function ($curl, string $line) use (&$received): int {
                if (str_starts_with($line, 'HTTP/')) {
                    $received = []; // of an informational answer
                } elseif (str_contains($line, ':')) {
                    [$name, $value] = explode(':', $line, 2);
                    $name = strtolower($name);
                    $received[$name] = isset($received[$name]) ? $received[$name] . ', ' . trim($value) : trim($value);
                }
                return strlen($line);
            },
        ] + ($body === null ? [] : [CURLOPT_POSTFIELDS => $body]));
        $answer = curl_exec($this->handle);
        if ($answer === false) {
            throw new \RuntimeException('the gateway of ration: ' . curl_error($this->handle));
        }
        $status = curl_getinfo($this->handle, CURLINFO_RESPONSE_CODE);
        if (isset($received['ration-detail'])) {
            throw Error::of($status, fn (string $name) => $received[$name] ?? '', $answer);
        }
        return ['status' => $status, 'headers' => $received, 'body' => $answer];
    }

    /** Returns headers of an answer to $url with the upstream's own addresses, in place of the gateway's. */
    private static function leadBack(string $url, array $headers): array
    {
        $upstream = strtolower(parse_url($url, PHP_URL_SCHEME)) . '://';
        $patterns = [
            'location' => ['#^/to/#', $upstream],
            'link' => ['#</to/#', "<$upstream"],
            'set-cookie' => ['#; Path=/to/[^/;,]*#', '; Path='],
        ];
        foreach (array_intersect_key($patterns, $headers) as $name => [$pattern, $by]) {
            $headers[$name] = preg_replace($pattern, $by, $headers[$name]);
        }
        return $headers;
    }
}

/** An admitted call. $answer is the gateway's document, such as $answer['remaining']. */
class Grant
{
    public function __construct(private Gateway $gateway, public readonly string $token, public readonly array $answer)
    {
    }

    /** Replaces what the call was charged by what it really cost. */
    public function settle(?int $units = null, ?array $amounts = null): array
    {
        return $this->post('settle', compact('units', 'amounts'));
    }

    /** Returns the units of a call that was never sent. */
    public function refund(): array
    {
        return $this->post('refund', []);
    }

    /**
     * Says what the upstream answered, and returns what that did.
     *
     * @param array<string, string|string[]> $headers
     */
    public function report(int $status, array $headers = [], ?string $body = null, ?int $units = null, ?array $amounts = null): array
    {
        return $this->post('report', ['headers' => (object) $headers] + compact('status', 'body', 'units', 'amounts'));
    }

    private function post(string $what, array $document): array
    {
        return $this->gateway->post('/v1/grants/' . rawurlencode($this->token) . "/$what", $document);
    }
}
