# Asks for videos until the budget is spent: prints how many answers came.
require "json"
require "net/http"

GATEWAY = ENV.fetch("RATION_URL", "http://127.0.0.1:8377")
HEADERS = { "Ration-Token" => ENV["RATION_TOKEN"], "Ration-Job" => "ruby" }.compact

# Sends a GET to an https address through the gateway. Exits if it is refused.
def guarded(url)
  answer = Net::HTTP.get_response(URI("#{GATEWAY}/to/#{url.delete_prefix("https://")}"), HEADERS)
  return answer unless answer["Ration-Detail"] # the gateway's own answers have it
  abort answer["Ration-Detail"] unless answer.code == "429"
  warn "stopped until #{JSON.parse(answer.body)["retry_at"]}"
  puts $answers
  exit 75 # go on later
end

$answers = 0
loop do
  guarded("https://www.googleapis.com/youtube/v3/videos?part=id&chart=mostPopular&regionCode=IN").value
  $answers += 1
end
