package costs

import (
	"net/url"
	"slices"
	"sort"
	"strings"
)

// api holds the routes of an upstream's discovery document. The tables are
// generated, sorted by path and verb, and read-only. They are composite
// literals without code, so they cost nothing at start.
type api struct {
	name   string // as in costs.yaml, such as youtube/v3
	routes []route
}

// route is one verb and path of a method.
type route struct {
	path   string // a prefix that ends in / if the last segment is a parameter
	verb   string
	method string
}

// The prefixes of the paths of uploads. Each path of an upload, which may be
// simple, multipart or the start of a resumable one, is also that of resumable
// uploads alone, behind resumablePrefix.
const (
	uploadPrefix    = "/upload/"
	resumablePrefix = "/resumable"
)

func (r *route) isUpload() bool { return strings.HasPrefix(r.path, uploadPrefix) }

// apis returns the tables that costs.yaml may name.
func apis() []*api { return []*api{&youtubeV3} }

func apiNamed(name string) *api {
	for _, a := range apis() {
		if a.name == name {
			return a
		}
	}
	return nil
}

func apiNames() []string {
	var names []string
	for _, a := range apis() {
		names = append(names, a.name)
	}
	return names
}

// methods returns the names of the methods, sorted.
func (a *api) methods() []string {
	var names []string
	for i := range a.routes {
		names = append(names, a.routes[i].method)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// routesFor returns the routes of a URL's path. Documented paths without a
// parameter need no escaping, so they are looked up unescaped first.
func (a *api) routesFor(u *url.URL) []route {
	if u.RawPath == "" && !strings.HasSuffix(u.Path, "/") {
		if routes := a.find(u.Path); len(routes) > 0 {
			return routes
		}
	}
	return a.routesAt(u.EscapedPath())
}

// routesAt returns the routes of an escaped path, one for each verb. The path
// must be exactly as documented, in case, slashes, dots and escapes.
func (a *api) routesAt(path string) []route {
	if strings.HasSuffix(path, "/") {
		return nil
	}
	if routes := a.find(path); len(routes) > 0 {
		return routes
	}
	cut := strings.LastIndexByte(path, '/') + 1
	if !plainParameter(path[cut:]) {
		return nil
	}
	return a.find(path[:cut])
}

func (a *api) find(path string) []route {
	if upload, found := strings.CutPrefix(path, resumablePrefix); found && strings.HasPrefix(upload, uploadPrefix) {
		path = upload
	}
	low := sort.Search(len(a.routes), func(i int) bool { return a.routes[i].path >= path })
	high := low
	for high < len(a.routes) && a.routes[high].path == path {
		high++
	}
	return a.routes[low:high]
}

// plainParameter reports whether every server reads a segment as the same
// value, however it decodes or cleans the path. An escaped slash is valid:
// captions/abc%2Fd is the caption "abc/d".
func plainParameter(segment string) bool {
	value := segment
	if strings.IndexByte(segment, '%') >= 0 {
		decoded, err := url.PathUnescape(segment)
		if err != nil {
			return false
		}
		value = decoded
	}
	for rest, more := value, true; more; {
		var part string
		if part, rest, more = strings.Cut(rest, "/"); part == "" || isDotPart(part) {
			return false
		}
	}
	return !strings.ContainsFunc(value, func(r rune) bool {
		isPrintableASCII := r > ' ' && r < 0x7f
		return !isPrintableASCII || strings.ContainsRune(`%\;?#"<>{}|^`+"`", r)
	})
}
