package youtubetest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/youtube/v3"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// A job fetches a chart page by page; then the test asks the server what
// it cost.
func Example() {
	upstream := youtubetest.New(&youtubetest.Options{Limit: 203})
	srv := httptest.NewServer(upstream)
	defer srv.Close()

	ctx := context.Background()
	svc, err := youtube.NewService(ctx, option.WithEndpoint(srv.URL+"/"), option.WithAPIKey("any"))
	if err != nil {
		log.Fatal(err)
	}
	videos := 0
	err = svc.Videos.List([]string{"snippet", "statistics"}).Chart("mostPopular").RegionCode("AU").MaxResults(50).
		Pages(ctx, func(page *youtube.VideoListResponse) error {
			videos += len(page.Items)
			return nil
		})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(videos, "videos for", upstream.Total(), "units")

	for err == nil {
		_, err = svc.Search.List([]string{"snippet"}).Q("music").RegionCode("GB").Do()
	}
	no, _ := errors.AsType[*googleapi.Error](err)
	fmt.Println(no.Code, no.Errors[0].Reason)
	fmt.Println(upstream.Used()[youtubetest.DefaultBucket], "of 203 used")
	fmt.Println(upstream.Sum(func(a youtubetest.Arrival) string { return a.Region }))
	// Output:
	// 120 videos for 3 units
	// 403 quotaExceeded
	// 203 of 203 used
	// map[AU:3 GB:200]
}

// A fault breaks some answers; all of them are recorded.
func ExampleServer_Fail() {
	upstream := youtubetest.New(nil)
	srv := httptest.NewServer(upstream)
	defer srv.Close()
	upstream.Fail(youtubetest.Fault{Method: "videos.list", Region: "DE", Status: 503})

	ctx := context.Background()
	svc, err := youtube.NewService(ctx, option.WithEndpoint(srv.URL+"/"), option.WithAPIKey("any"))
	if err != nil {
		log.Fatal(err)
	}
	for _, region := range []string{"US", "DE", "DE"} {
		_, _ = svc.Videos.List([]string{"id"}).Chart("mostPopular").RegionCode(region).Do()
	}
	for _, a := range upstream.Arrivals() {
		fmt.Println(a.Method, a.Region, a.Status, a.Units)
	}
	// Output:
	// videos.list US 200 1
	// videos.list DE 503 1
	// videos.list DE 200 1
}
