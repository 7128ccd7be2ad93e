package costs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ration-dev/ration/costs/strictyaml"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/readahead"
)

// KeyPlace is where a request has the key of its call: the name of a header, of
// a part of its route's path, or of a query parameter, or the dotted path of a
// field of its JSON body. At most one of them is set.
type KeyPlace struct{ Header, Path, Query, Body string }

// String returns the place as costs.yaml writes it, or "" if there is none.
func (k *KeyPlace) String() string {
	for _, place := range [...][2]string{{"header", k.Header}, {"path", k.Path}, {"query", k.Query}, {"body", k.Body}} {
		if place[1] != "" {
			return fmt.Sprintf("{%s: %s}", place[0], place[1])
		}
	}
	return ""
}

// maxKeyBody is how many bytes of a body Price reads to find a key.
const maxKeyBody = 64 << 10

// readKey reads key: {header: X-Tenant}.
func (d *document) readKey(n strictyaml.Node) {
	var k KeyPlace
	d.keyAt = n
	text := func(into *string) func(strictyaml.Node) {
		return func(n strictyaml.Node) { *into = n.Text(maxText) }
	}
	credential := func(into *string) func(strictyaml.Node) {
		return func(n strictyaml.Node) {
			if *into = n.Text(maxText); namesCredential(*into) {
				n.Mistake("%s is a credential, and keys are shown in logs: write another place that tells the keys apart, or give the key with Ration-Key", *into)
			}
		}
	}
	before := n.Mistakes()
	n.Fields(
		strictyaml.Field{Key: "header", Read: credential(&k.Header)},
		strictyaml.Field{Key: "path", Read: text(&k.Path)},
		strictyaml.Field{Key: "query", Read: credential(&k.Query)},
		strictyaml.Field{Key: "body", Read: text(&k.Body)},
		strictyaml.Field{Key: "json", Read: text(&k.Body)},
	)
	if k.isMalformed() && n.Mistakes() == before {
		n.Mistake("a key has one place: write {header: X-Tenant}, {path: base}, {query: site} or {body: tenant.id}")
	}
	k.Header = http.CanonicalHeaderKey(k.Header)
	d.Key, d.site.key = k, k
	d.setOrigin(n, "key")
}

// isMalformed reports whether not exactly one place is set.
func (k *KeyPlace) isMalformed() bool {
	places := slices.DeleteFunc([]string{k.Header, k.Path, k.Query, k.Body}, func(place string) bool { return place == "" })
	return len(places) != 1
}

// namesCredential reports whether a header or a query parameter of this name
// most likely holds a credential.
func namesCredential(name string) bool {
	name = strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
	isNamed := slices.Contains([]string{"authorization", "proxyauthorization", "cookie", "key", "password", "signature", "sig"}, name)
	return isNamed || slices.ContainsFunc([]string{"apikey", "token", "secret"}, func(part string) bool { return strings.Contains(name, part) })
}

// checkKey reports a key from a part of the path that no route has.
func (d *document) checkKey() {
	isNamed := func(p *pattern) bool {
		return slices.ContainsFunc(p.segments, func(s segment) bool { return s.kind == anySegment && s.name == d.Key.Path })
	}
	if d.Key.Path != "" && !slices.ContainsFunc(d.site.patterns, isNamed) {
		d.keyAt.Mistake("no route has a part {%s}: write one, such as \"/v1/{%[1]s}/{rest...}\": read, or another place", d.Key.Path)
	}
}

// readKeyLimits reads the keys of a budget that have limits of their own.
func readKeyLimits(n strictyaml.Node, b *quota.Budget) {
	b.Keys = map[string]quota.Units{}
	n.Entries(func(key, value strictyaml.Node) {
		b.Keys[key.Text(quota.MaxKey)] = quota.Units(value.Int(1, int64(quota.MaxLimit)))
	})
	if len(b.Keys) > quota.MaxKeyLimits {
		n.Mistake("%d keys: give at most %d limits of their own", len(b.Keys), quota.MaxKeyLimits)
	}
}

// checkKeyLimits reports limits of keys in budgets that do not have them.
func (d *document) checkKeyLimits() {
	for i := range d.Budgets {
		b, at := &d.Budgets[i], d.budgets[i].keys["keys"]
		switch {
		case len(b.Keys) == 0:
		case !b.PerKey:
			at.Mistake("keys without per: all calls count together: write per: key beside it")
		case len(b.Floor) > 0:
			at.Mistake("keys beside floor: write one of them, since the floors are parts of one limit")
		}
	}
}

// keyOf returns the key of a request, which may be "", or the reason why it is
// not certain. It may read a part of the body, and restores that.
func (s *site) keyOf(req *http.Request) (key, reason string) {
	var values []string
	switch k := &s.key; {
	case k.Header != "":
		values = req.Header.Values(k.Header)
	case k.Path != "":
		values = s.partOf(req, k.Path)
	case k.Query != "" && req.URL.RawQuery != "":
		query, err := url.ParseQuery(req.URL.RawQuery)
		if err != nil {
			return "", "its query is malformed, so that its key is not certain; encode it"
		}
		values = query[k.Query]
	case k.Body != "":
		values = valuesAt(bodyPrefix(req), strings.Split(k.Body, "."))
	}
	if len(values) == 0 {
		return "", ""
	}
	if slices.ContainsFunc(values, func(value string) bool { return value != values[0] }) {
		return "", fmt.Sprintf("its key %s has several values; give one", s.key.String())
	}
	if quota.CheckKey(values[0]) != nil {
		return "", fmt.Sprintf("its key %s is not a text of at most %d bytes; shorten it", s.key.String(), quota.MaxKey)
	}
	return values[0], ""
}

// partOf returns the text of a part of a request's path.
func (s *site) partOf(req *http.Request, name string) []string {
	path := cmp.Or(req.URL.EscapedPath(), "/")
	found, _ := s.findPattern(cmp.Or(req.Method, http.MethodGet), path, false)
	if found == nil {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, segment := range found.segments {
		if segment.kind != anySegment || segment.name != name || i >= len(parts) {
			continue
		}
		if text, err := url.PathUnescape(parts[i]); err == nil {
			return []string{text}
		}
	}
	return nil
}

// bodyPrefix returns the first maxKeyBody bytes of a request's body and
// restores it, or nil if they cannot be read.
func bodyPrefix(req *http.Request) []byte {
	hasBody := req.Body != nil && req.Body != http.NoBody
	if !hasBody || len(req.Header.Values("Content-Encoding")) > 0 {
		return nil
	}
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil
		}
		defer body.Close()
		prefix, _ := io.ReadAll(io.LimitReader(body, maxKeyBody))
		return prefix
	}
	ahead := readahead.New(req.Body, maxKeyBody)
	req.Body = ahead
	select {
	case <-ahead.Done():
	case <-req.Context().Done():
	}
	prefix, _ := ahead.Stop()
	return prefix
}

// valuesAt returns the texts, numbers and booleans at a path in a JSON object,
// of which data may be only the beginning: several if a name is repeated, since
// parsers differ in which one they use.
func valuesAt(data []byte, path []string) (values []string) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return values
		}
		var value json.RawMessage
		failed := decoder.Decode(&value)
		switch {
		case name != path[0]:
		case len(path) > 1 && failed != nil: // it ends after data
			rest := bytes.TrimLeft(data[decoder.InputOffset():], ": \t\r\n")
			return append(values, valuesAt(rest, path[1:])...)
		case len(path) > 1:
			values = append(values, valuesAt(value, path[1:])...)
		case failed == nil:
			values = append(values, scalarOf(value)...)
		}
		if failed != nil {
			return values
		}
	}
	return values
}

// scalarOf returns a JSON text, number or boolean as text.
func scalarOf(value json.RawMessage) []string {
	var text string
	switch {
	case json.Unmarshal(value, &text) == nil && value[0] == '"':
		return []string{text}
	case value[0] == '{', value[0] == '[', string(value) == "null":
		return nil
	}
	return []string{string(value)}
}
