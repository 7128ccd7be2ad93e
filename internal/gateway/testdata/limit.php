<?php
// Prints the median and the 99th percentile of COUNT requests of each kind, in
// microseconds, each by one connection that is kept open: /healthz, which does
// nothing, and the client's limit.
require __DIR__ . '/../../../docs/clients/php/ration.php';

$curl = curl_init($argv[1] . '/healthz');
curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true]);
$gateway = new Ration\Gateway(url: $argv[1]);
$calls = [
    'healthz' => fn (int $n) => curl_exec($curl),
    'limit' => fn (int $n) => $gateway->limit('address ' . $n % 100, 60, '1m'),
];
$took = [];
for ($n = -100; $n < (int) $argv[2]; $n++) {
    foreach ($calls as $kind => $call) {
        $begin = hrtime(true);
        $call(abs($n)) ?: exit("$kind: no answer");
        if ($n >= 0) {
            $took[$kind][] = (hrtime(true) - $begin) / 1e3;
        }
    }
}
foreach ($took as $times) {
    sort($times);
    echo $times[intdiv(count($times), 2)], ' ', $times[intdiv(count($times) * 99, 100)], "\n";
}
