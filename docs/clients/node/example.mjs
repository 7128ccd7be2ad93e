// Asks for videos until the budget is spent: prints how many answers came.
import { EXIT_STOPPED, Refused, guarded } from "./ration.mjs";

const fetch = guarded({ job: "node" });
let answers = 0;
try {
  for (;;) {
    const response = await fetch("https://www.googleapis.com/youtube/v3/videos?part=id&chart=mostPopular&regionCode=IN");
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
    await response.json();
    answers++;
  }
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.log(answers);
  console.error("stopped until", error.retryAt);
  process.exitCode = EXIT_STOPPED;
}
