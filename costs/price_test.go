package costs_test

import (
	"errors"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
	"pgregory.net/rapid"
)

const searchURL = "https://youtube.googleapis.com/youtube/v3/search?part=snippet&q=x"

// edited returns a search whose request was changed by hand.
func edited(t testing.TB, edit func(*http.Request)) *http.Request {
	req := get(t, searchURL)
	edit(req)
	return req
}

func TestRequestsThatAreNotPlainAreRefused(t *testing.T) {
	requests := map[string]*http.Request{}
	for _, p := range []string{"//youtube/v3/search", "/youtube/v3//search", "/youtube/./v3/search",
		"/youtube/v3/x/../search", "/youtube/v3/search/", "/youtube/v3/search;x=1",
		"/youtube/v3/SEARCH", "/YouTube/v3/search", "/youtube/v3/%73earch", "/youtube/v3%2Fsearch",
		"/youtube/v3/search%20", "/youtube/v3/search%00", "/youtube/v3/search%3Fx",
		"/youtube/v3/search/x", "/youtube/v3", "/youtube/v3/", "/", "", "/search", "/v3/search", "/youtube/v4/search",
		"/x/youtube/v3/search", "/batch", "/batch/youtube/v3", "/youtube/v3/videos:other",
		"/youtube/v3/captions/", "/youtube/v3/captions/..", "/youtube/v3/captions/%2e%2e",
		"/youtube/v3/captions/..%2Fsearch", "/youtube/v3/captions/a%2F%2Fb", "/youtube/v3/captions/%2Fa",
		"/youtube/v3/captions/a%2F",
		"/youtube/v3/captions/..%252Fsearch", "/youtube/v3/captions/..%5Csearch", "/youtube/v3/captions/;a",
		"/youtube/v3/captions/a/b", "/youtube/v3/captions/a%3Fb", "/youtube/v3/captions/a%20b",
		"/youtube/v3/captions/a%7Fb", "/upload/youtube/v3/search", "/resumable/upload/youtube/v3/search"} {
		requests[p] = get(t, "https://youtube.googleapis.com"+p)
	}
	for _, verb := range []string{"get", "Get", "HEAD", "OPTIONS", "POST", "DELETE", "TRACE", "CONNECT", "GET ",
		"PATCH"} {
		requests["verb "+verb] = edited(t, func(r *http.Request) { r.Method = verb })
	}
	for _, header := range []string{"X-HTTP-Method-Override", "X-Http-Method-Override", "x-http-method-override",
		"X-HTTP-Method", "X-Method-Override", "_method", "host", "X_HTTP_Method_Override", "X_http-method",
		"X-Method_Override"} {
		requests["header "+header] = edited(t, func(r *http.Request) { r.Header[header] = []string{"GET"} })
	}
	for _, q := range []string{"_method=DELETE", "$httpMethod=POST", "%24httpMethod=POST", "httpMethod=POST",
		"q=1;_method=PUT", "X-HTTP-Method-Override=PUT", "%5fmethod=PUT", "%zz=1", "$httpHeaders=x", "a&_METHOD"} {
		requests["query "+q] = edited(t, func(r *http.Request) { r.URL.RawQuery = q })
	}
	for name, req := range requests {
		refused(t, name, req)
	}
	if _, err := load(t).Price(get(t, "https://youtube.googleapis.com/youtube/v3/captions/abc%2Fd")); !errors.Is(err,
		costs.ErrNoCost) {
		t.Errorf("a method without a cost: %v", err)
	}
}

// refused asserts that a request has no route, and that the error hides
// its query.
func refused(t *testing.T, name string, req *http.Request) {
	t.Helper()
	call, err := load(t).Price(req)
	refusal, ok := errors.AsType[*costs.PriceError](err)
	if !ok || !errors.Is(err, costs.ErrNoRoute) || !reflect.DeepEqual(call, quota.Call{}) {
		t.Errorf("%s: %+v, %v", name, call, err)
	} else if strings.Contains(err.Error(), "SECRET") || refusal.Reason == "" {
		t.Errorf("%s: %v", name, err)
	}
}

func TestRequestsThatHideTheirHostOrPathAreRefused(t *testing.T) {
	table := load(t)
	for name, edit := range map[string]func(*http.Request){
		"opaque": func(r *http.Request) {
			r.URL = &url.URL{Scheme: "https", Opaque: "//youtube.googleapis.com/youtube/v3/search"}
		},
		"opaque path": func(r *http.Request) { r.URL.Opaque = "/youtube/v3/videos" },
		"opaque through other": func(r *http.Request) {
			r.URL.Host, r.URL.Opaque = "proxy:3128", "//youtube.googleapis.com/youtube/v3/search"
		},
		"userinfo":           func(r *http.Request) { r.URL.User = url.User("x") },
		"scheme":             func(r *http.Request) { r.URL.Scheme = "ftp" },
		"no scheme":          func(r *http.Request) { r.URL.Scheme = "" },
		"another Host":       func(r *http.Request) { r.Host = "example.com" },
		"fronted":            func(r *http.Request) { r.URL.Host, r.Host = "example.com", "youtube.googleapis.com" },
		"fronted with slash": func(r *http.Request) { r.URL.Host, r.Host = "example.com", "youtube.googleapis.com/x" },
		"two guarded hosts":  func(r *http.Request) { r.Host = "www.googleapis.com" },
		"no host but a Host": func(r *http.Request) { r.URL.Host, r.Host = "", "youtube.googleapis.com" },
		"another port":       func(r *http.Request) { r.URL.Host = "youtube.googleapis.com:8443" },
		"the other own port": func(r *http.Request) { r.URL.Host = "youtube.googleapis.com:80" },
		"wide letters":       func(r *http.Request) { r.URL.Host = "ｙoutube.googleapis.com" },
		// net/http dials what is in them
		"brackets":          func(r *http.Request) { r.URL.Host = "[youtube.googleapis.com]" },
		"brackets and port": func(r *http.Request) { r.URL.Host = "[youtube.googleapis.com]:443" },
		"half a bracket":    func(r *http.Request) { r.URL.Host = "youtube.googleapis.com]" },
		"user in host":      func(r *http.Request) { r.URL.Host = "x@youtube.googleapis.com" },
		"wrong RawPath":     func(r *http.Request) { r.URL.RawPath = "/youtube/v3/%73earch" },
		"relative":          func(r *http.Request) { r.URL.Path = "youtube/v3/search" },
		"query in the path": func(r *http.Request) { r.URL.Path = "/youtube/v3/search?key=SECRET" },
	} {
		refused(t, name, edited(t, edit))
	}
	for name, price := range map[string]func() (quota.Call, error){
		"no request": func() (quota.Call, error) { return table.Price(nil) },
		"no URL":     func() (quota.Call, error) { return table.Price(&http.Request{}) },
		"no table":   func() (quota.Call, error) { return (*costs.Table)(nil).Price(get(t, searchURL)) },
	} {
		if _, err := price(); !errors.Is(err, costs.ErrNoRoute) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPlainRequestsArePriced(t *testing.T) {
	table := load(t)
	for name, edit := range map[string]func(*http.Request){
		"as it is":   func(*http.Request) {},
		"no verb":    func(r *http.Request) { r.Method = "" },
		"no headers": func(r *http.Request) { r.Header = nil },
		"upper host": func(r *http.Request) { r.URL.Host = "YouTube.GoogleAPIs.com" },
		"final dot":  func(r *http.Request) { r.URL.Host = "youtube.googleapis.com." },
		"own port":   func(r *http.Request) { r.URL.Host = "youtube.googleapis.com:443" },
		"empty port": func(r *http.Request) { r.URL.Host = "youtube.googleapis.com:" },
		"http":       func(r *http.Request) { r.URL.Scheme, r.URL.Host = "http", "www.googleapis.com:80" },
		"same Host":  func(r *http.Request) { r.Host = "YOUTUBE.googleapis.com.:443" },
		"upload_id": func(r *http.Request) {
			r.URL.RawQuery = "uploadType=resumable&upload_id=x"
			r.Header.Set("Content-Range", "bytes 0-1/2")
		},
		"semicolons":  func(r *http.Request) { r.URL.RawQuery = "q=a;b;c" },
		"odd values":  func(r *http.Request) { r.URL.RawQuery = "q=%zz&q=_method&fields=a(b)&&=" },
		"its RawPath": func(r *http.Request) { r.URL.RawPath = "/youtube/v3/search" },
		// net/http does not send it
		"ignored Host": func(r *http.Request) { r.Header["Host"] = []string{"example.com"} },
	} {
		call, err := table.Price(edited(t, edit))
		if err != nil || !reflect.DeepEqual(call,
			quota.Call{Account: "my-project", Method: "search.list", Units: 100}) {
			t.Errorf("%s: %+v, %v", name, call, err)
		}
	}
	for name, edit := range map[string]func(*http.Request){
		"another host": func(r *http.Request) { r.URL.Host = "i.ytimg.com" },
		"a longer one": func(r *http.Request) { r.URL.Host = "youtube.googleapis.com.example.com" },
		"its own Host": func(r *http.Request) { r.URL.Host, r.Host = "127.0.0.1:80", "example.com" },
		"an override": func(r *http.Request) {
			r.URL.Host = "example.com"
			r.Header.Set("X-HTTP-Method-Override",
				"PUT")
		},
		"opaque": func(r *http.Request) {
			r.URL.Host, r.URL.Opaque = "bucket.example.com",
				"//bucket.example.com/a%2Fb"
		},
		"an address": func(r *http.Request) { r.URL.Host = "[fe80::1%eth0]:80" },
	} {
		if call, err := table.Price(edited(t, edit)); err != quota.ErrUnguarded {
			t.Errorf("%s: %+v, %v", name, call, err)
		}
	}
}

func TestResumableUploadsAreChargedOnce(t *testing.T) {
	table := load(t)
	const upload = "https://youtube.googleapis.com/upload/youtube/v3/videos"
	const session = "?uploadType=resumable&part=snippet&upload_id=AbC"
	for _, c := range []struct {
		name, verb, url, contentRange string
		method                        string // empty: paid before; "-": refused
		header                        string
	}{
		{"start", "POST", upload + "?uploadType=resumable&part=snippet", "", "videos.insert", ""},
		{"multipart", "POST", upload + "?uploadType=multipart", "", "videos.insert", ""},
		{"chunk as Go sends it", "POST", upload + session, "bytes 0-99/1000", "", ""},
		{"chunk as documented", "PUT", upload + session, "bytes 0-99/1000", "", ""},
		{"whole file", "PUT", upload + session, "", "", ""},
		{"status", "PUT", upload + session, "bytes */1000", "", ""},
		{"chunk of the other path", "POST",
			"https://www.googleapis.com/resumable/upload/youtube/v3/videos?upload_id=AbC", "bytes 0-99/1000", "", ""},
		{"thumbnail chunk", "POST", "https://youtube.googleapis.com/upload/youtube/v3/thumbnails/set" + session,
			"bytes 0-99/1000", "", ""},
		{"upload_id on a start", "POST", upload + session, "", "videos.insert", ""},
		{"upload_id on a multipart upload", "POST", upload + "?uploadType=multipart&upload_id=x", "bytes 0-99/1000",
			"videos.insert", ""},
		{"both types", "POST", upload + "?uploadType=resumable&uploadType=multipart&upload_id=x", "bytes 0-99/1000",
			"videos.insert", ""},
		{"both protocols", "POST", upload + "?uploadType=resumable&upload_protocol=raw&upload_id=x", "bytes 0-99/1000",
			"videos.insert", ""},
		{"no type", "POST", upload + "?upload_id=x", "bytes 0-99/1000", "videos.insert", ""},
		{"empty upload_id", "POST", upload + "?uploadType=resumable&upload_id=", "bytes 0-99/1000", "videos.insert",
			""},
		{"UPLOAD_ID, which some servers do not know", "POST", upload + "?uploadType=resumable&UPLOAD_ID=x&part=snippet",
			"bytes 0-1/2", "videos.insert", ""},
		{"parameters behind semicolons", "POST", upload + "?part=snippet;upload_id=x;uploadType=resumable",
			"bytes 0-1/2", "videos.insert", ""},
		{"UPLOADTYPE", "POST", upload + "?UPLOADTYPE=resumable&upload_id=x", "bytes 0-1/2", "videos.insert", ""},
		{"two upload_ids", "POST", upload + "?uploadType=resumable&upload_id=x&upload_id=y", "bytes 0-99/1000",
			"videos.insert", ""},
		{"odd range", "POST", upload + session, "x", "videos.insert", ""},
		{"another protocol's start", "POST", upload + session, "bytes 0-99/1000", "videos.insert",
			"X-Goog-Upload-Command"},
		{"another protocol's start by CGI", "POST", upload + session, "bytes 0-99/1000", "videos.insert",
			"X_Goog_Upload_Command"},
		{"update that could begin", "PUT", "https://youtube.googleapis.com/upload/youtube/v3/captions" + session, "",
			"captions.update", ""},
		{"update's chunk", "PUT", "https://youtube.googleapis.com/upload/youtube/v3/captions" + session,
			"bytes 0-99/1000", "", ""},
		{"upload_id on a plain path", "POST", "https://youtube.googleapis.com/youtube/v3/videos" + session,
			"bytes 0-99/1000", "videos.insert", ""},
		{"cancel", "DELETE", upload + session, "", "-", ""},
		{"put without a session", "PUT", upload + "?uploadType=resumable", "bytes 0-99/1000", "-", ""},
		{"method without a cost", "POST", "https://youtube.googleapis.com/upload/youtube/v3/playlistImages" + session,
			"bytes 0-99/1000", "-", ""},
		{"override", "PUT", upload + session, "bytes 0-99/1000", "-", "X-HTTP-Method-Override"},
	} {
		req := get(t, c.url)
		req.Method = c.verb
		if c.contentRange != "" {
			req.Header.Set("Content-Range", c.contentRange)
		}
		if c.header != "" {
			req.Header.Set(c.header, "start")
		}
		call, err := table.Price(req)
		_, refused := errors.AsType[*costs.PriceError](err)
		if call.Method != strings.TrimPrefix(c.method, "-") || refused != (c.method == "-") ||
			(err == quota.ErrPaid) != (c.method == "") {
			t.Errorf("%s: %+v, %v", c.name, call, err)
		}
	}
}

// mutations change how a search is written, but not how a lenient server
// reads it.
var mutations = []func(*rapid.T, *http.Request){
	func(t *rapid.T, r *http.Request) { // one letter of the path encoded
		i := rapid.IntRange(0, len(r.URL.Path)-1).Draw(t, "at")
		r.URL.RawPath = r.URL.Path[:i] + "%" + strings.ToUpper(string("0123456789abcdef"[r.URL.Path[i]>>4])+
			string("0123456789abcdef"[r.URL.Path[i]&15])) + r.URL.Path[i+1:]
	},
	func(t *rapid.T, r *http.Request) { // a segment that path cleaning removes
		parts := strings.SplitAfter(r.URL.Path, "/")
		i := rapid.IntRange(1, len(parts)).Draw(t, "at")
		junk := rapid.SampledFrom([]string{"/", "./", "x/../", "//", ".//./"}).Draw(t, "junk")
		r.URL.Path = strings.Join(parts[:i], "") + junk + strings.Join(parts[i:], "")
	},
	func(t *rapid.T, r *http.Request) {
		r.URL.Path += rapid.SampledFrom([]string{"/", ";a=b", "/.", " ", "\x00", "?", "#", "\\"}).Draw(t, "tail")
	},
	func(t *rapid.T, r *http.Request) {
		r.URL.Path = rapid.SampledFrom([]func(string) string{strings.ToUpper, strings.ToTitle, strings.ToLower}).Draw(t,
			"case")(r.URL.Path)
	},
	func(t *rapid.T, r *http.Request) {
		r.URL.Host = rapid.SampledFrom([]string{"YOUTUBE.googleapis.com", "youtube.googleapis.com.",
			"youtube.googleapis.com:443", "youtube.googleapis.com.:443", "youtube.googleapis.com:80",
			"www.googleapis.com", "youtube.googleapis.com..", "ｗww.googleapis.com"}).Draw(t, "host")
	},
	func(t *rapid.T, r *http.Request) {
		r.Host = rapid.SampledFrom([]string{"youtube.googleapis.com", "example.com", "WWW.googleapis.com:443",
			"www.googleapis.com/"}).Draw(t, "Host")
	},
	func(t *rapid.T, r *http.Request) {
		r.Method = rapid.SampledFrom([]string{"", "get", "HEAD", "POST", "PUT"}).Draw(t, "verb")
	},
	func(t *rapid.T, r *http.Request) {
		r.Header.Set(rapid.SampledFrom([]string{"X-HTTP-Method-Override", "Content-Range",
			"X-Goog-Upload-Command"}).Draw(t, "header"), "bytes 0-1/2")
	},
	func(t *rapid.T, r *http.Request) {
		r.URL.RawQuery += rapid.SampledFrom([]string{"&upload_id=x", "&uploadType=resumable", "&_method=GET",
			"&%24httpMethod=PUT", ";x"}).Draw(t, "query")
	},
	func(t *rapid.T, r *http.Request) { r.URL.Opaque = "//youtube.googleapis.com/youtube/v3/search" },
	func(t *rapid.T, r *http.Request) { r.URL.User = url.User("videos") },
}

// A search is charged as a search or refused, however it is written.
func TestNoMutationMakesASearchCheap(t *testing.T) {
	table := load(t)
	rapid.Check(t, func(t *rapid.T) {
		u, _ := url.Parse(searchURL)
		req := &http.Request{Method: "GET", URL: u, Header: http.Header{}}
		for _, mutate := range rapid.SliceOfN(rapid.SampledFrom(mutations), 1, 4).Draw(t, "mutations") {
			mutate(t, req)
		}
		call, err := table.Price(req)
		if _, refused := errors.AsType[*costs.PriceError](err); !refused &&
			(err != nil || call.Units != 100 || call.Method != "search.list") {
			t.Fatalf("%s %s (Host %q, %v): %+v, %v", req.Method, req.URL, req.Host, req.Header, call, err)
		}
	})
}

// lenient returns the path as the most lenient server would read it.
func lenient(p string) string {
	for range 4 {
		decoded, err := url.PathUnescape(p)
		if err != nil {
			break
		}
		p = decoded
	}
	p = strings.ReplaceAll(strings.ToLower(p), "\\", "/")
	segments := strings.Split(p, "/")
	for i, segment := range segments {
		segment, _, _ = strings.Cut(segment, ";")
		segments[i] = strings.TrimSpace(strings.Trim(segment, "\x00"))
	}
	return path.Clean("/" + strings.Join(segments, "/"))
}

// A request that any server could read as a search is never priced below one,
// and a request to a guarded host is never unguarded.
func FuzzPrice(f *testing.F) {
	table := load(f)
	f.Add("GET", searchURL, "", "Accept", "/youtube/v3/search")
	f.Add("", "https://youtube.googleapis.com/youtube/v3/captions/..%2Fsearch", "", "x", "")
	f.Add("POST", "https://www.googleapis.com:443/upload/youtube/v3/videos?uploadType=resumable&upload_id=1",
		"WWW.googleapis.com", "Content-Range", "")
	f.Add("get", "https://youtube.googleapis.com/youtube/v3//search?%24httpMethod=x", "", "_method",
		"/youtube/v3/%73earch")
	f.Fuzz(func(t *testing.T, verb, raw, host, header, rawPath string) {
		u, err := url.Parse(raw)
		if err != nil {
			return
		}
		u.RawPath = rawPath
		req := &http.Request{Method: verb, URL: u, Host: host, Header: http.Header{header: {"bytes 0-1/2"}}}
		call, err := table.Price(req)
		for _, h := range []string{u.Host, host} {
			h = strings.ToLower(strings.TrimSuffix((&url.URL{Host: h}).Hostname(), "."))
			if (h == "youtube.googleapis.com" || h == "www.googleapis.com") && errors.Is(err, quota.ErrUnguarded) {
				t.Errorf("%s (Host %q) is unguarded", u, host)
			}
		}
		if read := lenient(u.EscapedPath()); read == "/youtube/v3/search" &&
			(err == nil && call.Units < 100 || err == quota.ErrPaid) {
			t.Errorf("%s %s: %+v, %v", verb, u, call, err)
		}
		if err == nil && (call.Units < 1 || call.Account != "my-project" ||
			strings.Contains(strings.ToLower(header), "override")) {
			t.Errorf("%s %s with %s: %+v", verb, u, header, call)
		}
	})
}

func TestPriceIsSafeForConcurrentUse(t *testing.T) {
	table := load(t)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 200 {
				if call, err := table.Price(get(t, searchURL)); err != nil || call.Units != 100 {
					t.Errorf("%+v, %v", call, err)
				}
			}
		})
	}
	group.Wait()
}

func TestInternationalHostsPass(t *testing.T) {
	table := load(t)
	for _, host := range []string{"bücher.example", "xn--bcher-kva.example", "例え.テスト", "az-09.example",
		"AZ_09.example"} {
		req := &http.Request{Method: "GET", URL: &url.URL{Scheme: "https", Host: host, Path: "/"}}
		if _, err := table.Price(req); !errors.Is(err, quota.ErrUnguarded) {
			t.Errorf("%s: %v; want it sent without a charge", host, err)
		}
	}
}
