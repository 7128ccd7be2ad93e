<?php
// Prints the median of COUNT requests of each kind, in microseconds, by one
// connection that is kept open: /healthz, which does nothing, and /v1/limit.
$curl = curl_init();
curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true, CURLOPT_HTTPHEADER => ['Content-Type: application/json']]);
$took = ['/healthz' => [], '/v1/limit' => []];
for ($n = -100; $n < (int) $argv[2]; $n++) {
    foreach (array_keys($took) as $path) {
        $post = $path === '/healthz' ? null : json_encode(['client' => 'address ' . $n % 100, 'limit' => 60, 'window' => '1m']);
        curl_setopt_array($curl, [CURLOPT_URL => $argv[1] . $path, CURLOPT_POST => $post !== null, CURLOPT_HTTPGET => $post === null]);
        if ($post !== null) {
            curl_setopt($curl, CURLOPT_POSTFIELDS, $post);
        }
        $begin = hrtime(true);
        curl_exec($curl);
        $time = (hrtime(true) - $begin) / 1e3;
        $status = curl_getinfo($curl, CURLINFO_RESPONSE_CODE);
        if ($status !== 200 && $status !== 429) {
            exit("$path: $status");
        }
        if ($n >= 0) {
            $took[$path][] = $time;
        }
    }
}
foreach ($took as $times) {
    sort($times);
    echo $times[intdiv(count($times), 2)], ' ', $times[intdiv(count($times) * 99, 100)], "\n";
}
