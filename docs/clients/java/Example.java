import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Asks for videos until the budget is spent: prints how many answers came. */
public class Example {
    static final HttpClient CLIENT = HttpClient.newHttpClient(); // which follows no redirects

    /** Sends a GET to an https address through the gateway. */
    static HttpResponse<String> guarded(String url) throws Exception {
        var env = System.getenv();
        var gateway = env.getOrDefault("RATION_URL", "http://127.0.0.1:8377");
        var request = HttpRequest.newBuilder(URI.create(gateway + "/to/" + url.substring("https://".length())))
            .header("Ration-Token", env.getOrDefault("RATION_TOKEN", "")).header("Ration-Job", "java").build();
        return CLIENT.send(request, HttpResponse.BodyHandlers.ofString());
    }

    public static void main(String[] args) throws Exception {
        for (int answers = 0; ; answers++) {
            var answer = guarded("https://www.googleapis.com/youtube/v3/videos?part=id&chart=mostPopular&regionCode=IN");
            if (answer.statusCode() == 429 && answer.headers().firstValue("Ration-Refused-By").isPresent()) {
                System.out.println(answers);
                System.err.println(answer.body()); // with retry_at, remaining, limit and shortfall
                System.exit(75); // go on later
            }
            if (answer.statusCode() != 200) throw new Exception(answer.statusCode() + " " + answer.body());
        }
    }
}
