<?php
// Guards HTTP requests with the gateway of ration (ration proxy, serve or exec):
//
//   require 'ration.php';
//   $items = Ration::request('GET', 'https://api.example.com/v1/items', job: 'import');
//   print_r(json_decode($items['body']));
//
// The gateway is the one that RATION_URL names, http://127.0.0.1:8377 by default,
// or unix:PATH for a socket; RATION_TOKEN is its token, if it wants one. ration
// exec and command: steps set both. A request that a budget or a cooldown refuses
// was not sent, and throws RationRefused.

/** The call does not fit its budget now. It was not sent, and cost nothing. */
class RationRefused extends RuntimeException
{
    public function __construct(array $problem, public readonly int $retryAfter)
    {
        parent::__construct($problem['why'] ?? $problem['detail'] ?? 'refused');
        $this->budget = $problem['budget'] ?? null;
        $this->retryAt = $problem['retry_at'] ?? null; // RFC 3339
    }

    public readonly ?string $budget;
    public readonly ?string $retryAt;
}

class Ration
{
    /** The exit code that tells ration and cron: go on later. */
    public const EXIT_STOPPED = 75;

    /**
     * Sends a request to $url through the gateway and returns its status,
     * headers (in lower case, repeated ones joined by commas) and body. $job,
     * $region and $lane say who calls; $maxWait is how long it may wait for its
     * units, as in 30s. A redirect to a host that is not guarded is an error.
     * $url may be that of a Link header, /to/HOST/PATH.
     *
     * @param string[] $headers lines such as 'Accept: application/json'
     * @return array{status: int, headers: array<string, string>, body: string}
     */
    public static function request(
        string $method,
        string $url,
        array $headers = [],
        ?string $body = null,
        ?string $job = null,
        ?string $region = null,
        ?string $lane = null,
        ?string $maxWait = null,
    ): array {
        $gateway = rtrim(getenv('RATION_URL') ?: 'http://127.0.0.1:8377', '/');
        $own = [
            'Ration-Token' => getenv('RATION_TOKEN') ?: null,
            'Ration-Job' => $job,
            'Ration-Region' => $region,
            'Ration-Lane' => $lane,
            'Ration-Max-Wait' => $maxWait,
        ];
        foreach ($own as $name => $value) {
            if ($value !== null) {
                $headers[] = "$name: $value";
            }
        }
        $path = '/to/' . preg_replace('#^(https?://|/to/)#i', '', $url);
        for ($hops = 0; ; $hops++) {
            $answer = self::send($method, $gateway, $path, $headers, $body);
            $location = $answer['headers']['location'] ?? '';
            if ($location === '' || !in_array($answer['status'], [301, 302, 303, 307, 308], true)) {
                return $answer;
            }
            // Not by curl, which would send the token to wherever the redirect leads.
            if (!str_starts_with($location, '/to/')) {
                throw new RuntimeException("a redirect leads to $location, which is not guarded");
            }
            if ($hops === 20) {
                throw new RuntimeException('too many redirects');
            }
            $becomesGet = $answer['status'] === 303 ? $method !== 'HEAD' : $answer['status'] < 303 && $method === 'POST';
            if ($becomesGet) {
                [$method, $body] = ['GET', null];
                $headers = preg_grep('/^content-/i', $headers, PREG_GREP_INVERT);
            }
            if (strtok(substr($location, 4), '/?') !== strtok(substr($path, 4), '/?')) { // another host, which must not learn them
                $headers = preg_grep('/^(authorization|cookie):/i', $headers, PREG_GREP_INVERT);
            }
            $path = $location;
        }
    }

    /**
     * Sends one request to the gateway.
     *
     * @param string[] $headers
     * @return array{status: int, headers: array<string, string>, body: string}
     */
    private static function send(string $method, string $gateway, string $path, array $headers, ?string $body): array
    {
        $curl = curl_init();
        if (str_starts_with($gateway, 'unix:')) {
            curl_setopt($curl, CURLOPT_UNIX_SOCKET_PATH, substr($gateway, strlen('unix:')));
            $gateway = 'http://localhost';
        }
        $received = [];
        curl_setopt_array($curl, [
            CURLOPT_URL => $gateway . $path,
            CURLOPT_CUSTOMREQUEST => $method,
            CURLOPT_NOBODY => $method === 'HEAD',
            CURLOPT_HTTPHEADER => $headers,
            CURLOPT_PROXY => '',
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
        ]);
        if ($body !== null) {
            curl_setopt($curl, CURLOPT_POSTFIELDS, $body);
        }
        $answer = curl_exec($curl);
        if ($answer === false) {
            throw new RuntimeException('the gateway of ration: ' . curl_error($curl));
        }
        $status = curl_getinfo($curl, CURLINFO_RESPONSE_CODE);
        if ($status === 429 && isset($received['ration-refused-by'])) {
            $problem = json_decode($answer, true) ?? ['detail' => $received['ration-detail'] ?? null]; // of HEAD
            throw new RationRefused($problem, (int) ($received['retry-after'] ?? 1));
        }
        return ['status' => $status, 'headers' => $received, 'body' => $answer];
    }
}
