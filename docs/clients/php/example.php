<?php
// Asks for videos until the budget is spent: prints how many answers came.
require __DIR__ . '/ration.php';

$url = 'https://www.googleapis.com/youtube/v3/videos?part=id&chart=mostPopular&regionCode=IN';
$gateway = new Ration\Gateway(job: 'php');
if (($argv[1] ?? 'curl') === 'guzzle') {
    require 'GuzzleHttp/autoload.php'; // Debian's; yours is composer's
    $stack = GuzzleHttp\HandlerStack::create();
    $stack->push($gateway->middleware());
    $client = new GuzzleHttp\Client(['handler' => $stack]);
    $get = fn () => $client->get($url)->getStatusCode();
} else {
    $get = fn () => $gateway->request('GET', $url)['status'];
}

$answers = 0;
try {
    while (($status = $get()) === 200) {
        $answers++;
    }
    throw new RuntimeException((string) $status);
} catch (Ration\Refused $refused) {
    echo $answers, "\n";
    fwrite(STDERR, "stopped until {$refused->retryAt?->format(DATE_ATOM)}\n");
    exit(Ration\EXIT_STOPPED);
}
