<?php
// Asks for videos until the budget is spent: prints how many answers came.
require __DIR__ . '/ration.php';

$answers = 0;
try {
    while (true) {
        $videos = Ration::request('GET', 'https://www.googleapis.com/youtube/v3/videos?part=id&chart=mostPopular&regionCode=IN', job: 'php');
        if ($videos['status'] !== 200) {
            throw new RuntimeException($videos['status'] . ' ' . $videos['body']);
        }
        $answers++;
    }
} catch (RationRefused $refused) {
    echo $answers, "\n";
    fwrite(STDERR, "stopped until {$refused->retryAt}\n");
    exit(Ration::EXIT_STOPPED);
}
