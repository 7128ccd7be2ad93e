<?php
// The claims about the client, against a gateway and an upstream of the tests of
// ration. Each of $tests is called with each library's client.
require __DIR__ . '/ration.php';
require 'GuzzleHttp/autoload.php'; // of Debian's php-guzzlehttp-guzzle

[$host, $other, $away] = array_map(fn ($name) => 'http://' . getenv($name), ['HOST', 'OTHER', 'AWAY']);
[$ca, $cert, $key] = array_map(fn ($name) => getenv('TLS_FILES') . "/$name.pem", ['ca', 'cert', 'key']);

$clients = [
    'curl' => function (array $tls = [], ...$options) {
        $curl = array_filter([CURLOPT_CAINFO => $tls['verify'] ?? null, CURLOPT_SSLCERT => $tls['cert'] ?? null,
            CURLOPT_SSLKEY => $tls['ssl_key'] ?? null, CURLOPT_PROXY => $tls['proxy'] ?? null]);
        $gateway = new Ration\Gateway(...$options, curl: $curl);
        return fn (string $method, string $url, array $headers = [], ?string $body = null) => $gateway->request($method, $url, $headers, $body);
    },
    'guzzle' => function (array $tls = [], ...$options) {
        $stack = GuzzleHttp\HandlerStack::create();
        $stack->push((new Ration\Gateway(...$options))->middleware());
        $client = new GuzzleHttp\Client(['handler' => $stack, 'http_errors' => false] + $tls);
        return function (string $method, string $url, array $headers = [], ?string $body = null) use ($client) {
            $lines = [];
            foreach ($headers as $line) {
                [$name, $value] = explode(': ', $line, 2);
                $lines[$name] = $value;
            }
            $answer = $client->request($method, $url, ['headers' => $lines, 'body' => $body]);
            $headers = array_map(fn ($values) => implode(', ', $values), array_change_key_case($answer->getHeaders()));
            return ['status' => $answer->getStatusCode(), 'headers' => $headers, 'body' => (string) $answer->getBody()];
        };
    },
];

function same(mixed $got, mixed $want): void
{
    if ($got !== $want) {
        throw new Exception('got ' . var_export($got, true) . ', want ' . var_export($want, true));
    }
}

function seen(string ...$want): void
{
    $curl = curl_init($GLOBALS['host'] . '/seen');
    curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true, CURLOPT_PROXY => '']);
    $got = curl_exec($curl);
    if ($want) {
        same(explode("\n", $got), $want);
    }
}

function thrown(string $class, callable $call): Throwable
{
    try {
        $call();
    } catch (Throwable $error) {
        if ($error instanceof $class) {
            return $error;
        }
        throw $error;
    }
    throw new Exception("$class was not thrown");
}

$tests = [
    'a request is charged and passes' => function ($open) use ($host) {
        $answer = $open(job: 'import', maxWait: '5s')('POST', "$host/v1/items?a=%2F&b", body: 'text');
        $echo = json_decode($answer['body'], true);
        same([$echo['method'], $echo['path'], $echo['body']], ['POST', '/v1/items?a=%2F&b', 'text']);
        same((new Ration\Gateway())->grant($answer['headers']['ration-grant'])->settle(2)['units'], 2);
        seen('POST /v1/items?a=%2F&b text');
    },
    'a redirect keeps method and body only if it says so' => function ($open) use ($host) {
        foreach ([302 => 'GET /v1/there', 303 => 'GET /v1/there', 307 => 'POST /v1/there text'] as $status => $want) {
            same($open()('POST', "$host/v1/$status", body: 'text')['status'], 200);
            seen("POST /v1/$status text", $want);
        }
        same($open()('PUT', "$host/v1/308", body: 'text')['status'], 200);
        seen('PUT /v1/308 text', 'PUT /v1/there text');
    },
    'links lead to the next page' => function ($open) use ($host) {
        $send = $open();
        preg_match('/<([^>]*)>; rel="next", <[^>]*>; rel="last"/', $send('GET', "$host/v1/page")['headers']['link'], $found);
        same($send('GET', $found[1])['status'], 200);
        seen('GET /v1/page', 'GET /v1/next');
    },
    'another host learns no secret' => function ($open) use ($host) {
        $headers = ['Authorization: secret'];
        same($open()('GET', "$host/v1/302", $headers)['status'], 200);
        same($open()('GET', "$host/v1/other", $headers)['status'], 200);
        thrown(RuntimeException::class, fn () => $open()('GET', "$host/v1/away", $headers));
        seen('GET /v1/302 secret', 'GET /v1/there secret', 'GET /v1/other secret', 'GET /v1/there', 'GET /v1/away secret');
    },
    'cookies have the upstream\'s paths' => function ($open) use ($host) {
        preg_match_all('/Path=([^;,]*)/', $open()('GET', "$host/v1/login")['headers']['set-cookie'], $found);
        same($found[1], ['/', '/v1', '/elsewhere']);
        seen('GET /v1/login');
    },
    'a refusal says what is left and when to come back' => function ($open) use ($host) {
        $refused = thrown(Ration\Refused::class, fn () => $open()('GET', "$host/v1/spent"));
        same([$refused->budget, $refused->limit, $refused->used, $refused->remaining, $refused->shortfall, $refused->type, $refused->getCode()],
            ['spent', 5, 3, 2, 1, 'refused', 429]);
        $wait = $refused->retryAt->getTimestamp() - time();
        same($wait > 0 && $wait <= 86401 && $refused->retryAfter > 0 && $refused->retryAfter <= 86400, true);
        same(str_contains($refused->getMessage(), 'spent has 2 of 5 units left'), true);
        same(thrown(Ration\Refused::class, fn () => $open()('HEAD', "$host/v1/spent"))->budget, 'spent');
        seen('');
    },
    'the gateway\'s errors are not the upstream\'s' => function ($open) use ($host, $away) {
        $down = thrown(Ration\LedgerDown::class, fn () => $open(url: getenv('DOWN_URL'))('GET', "$host/v1/items"));
        same([$down->status, $down->type, $down->retryAfter], [503, 'ledger-down', 1]);
        $rejected = thrown(Ration\Rejected::class, fn () => $open()('GET', "$away/v1/items"));
        same([$rejected->status, $rejected->type, str_contains($rejected->detail, 'costs.yaml')], [403, 'not-guarded', true]);
        same(thrown(Ration\Rejected::class, fn () => $open(token: 'wrong')('GET', "$host/v1/items"))->status, 401);
        seen('');
        $failed = $open()('GET', "$host/v1/failed");
        same([$failed['status'], $failed['body']], [503, "the upstream's own\n"]);
        seen('GET /v1/failed');
    },
    'the connection to the gateway has its TLS and proxy' => function ($open) use ($host, $ca, $cert, $key) {
        $url = getenv('TLS_URL');
        same($open(tls: ['verify' => $ca, 'cert' => $cert, 'ssl_key' => $key], url: $url)('GET', "$host/v1/items")['status'], 200);
        thrown(RuntimeException::class, fn () => $open(url: $url)('GET', "$host/v1/items"));
        same($open(tls: ['proxy' => getenv('PROXY')], url: 'http://gateway.internal')('GET', "$host/v1/items")['status'], 200);
        seen('GET /v1/items', 'GET /v1/items');
    },
    'a program asks and reports' => function () use ($host) {
        $gateway = new Ration\Gateway(job: 'asks', region: 'north');
        $unique = bin2hex(random_bytes(4));
        $grant = $gateway->spend('items.get', calls: 2, idempotencyKey: $unique);
        same([$grant->answer['calls'], $grant->answer['limit'], $grant->answer['budget']], [2, 1000, 'day']);
        same($gateway->spend('items.get', calls: 2, idempotencyKey: $unique)->token, $grant->token);
        same($grant->report(200, ['Content-Type' => 'text/plain'], 'text', units: 4)['units'], 4);
        same($grant->settle(5)['units'], 5);
        same($grant->refund()['units'], 0);
        same(thrown(Ration\Refused::class, fn () => $gateway->spend('items.spent'))->shortfall, 1);
        $rejected = thrown(Ration\Rejected::class, fn () => $gateway->spend('items.got'));
        same([$rejected->status, $rejected->type], [422, 'unknown-method']);
        same($gateway->spend(verb: 'POST', url: "$host/v1/items")->answer['method'], 'items.insert');
        $allowed = array_map(fn () => $gateway->limit("client $unique", 2, '1h')['allowed'], range(1, 3));
        same($allowed, [true, true, false]);
        $limit = $gateway->limit("client $unique", 2, '1h');
        same([$limit['remaining'], $limit['retry_after_s'] > 0 && $limit['retry_after_s'] <= 3600], [0, true]);
    },
];

$failed = 0;
foreach ($clients as $library => $open) {
    foreach ($tests as $claim => $test) {
        try {
            $test($open);
        } catch (Throwable $error) {
            echo "$library: $claim\n", get_class($error), ": {$error->getMessage()}\n{$error->getTraceAsString()}\n\n";
            seen();
            $failed = 1;
        }
    }
}
exit($failed);
