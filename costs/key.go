package costs

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// KeyPlace is where a request has the key of its call: Name of a header, of a
// query parameter or of a part of its route's path, or the dotted path of a
// field of its JSON object or form. Place is header, query, path, body, or
// empty if requests have no keys.
type KeyPlace struct{ Place, Name string }

// String returns the place as costs.yaml writes it, or "" if there is none.
func (k *KeyPlace) String() string {
	if k.Place == "" {
		return ""
	}
	return fmt.Sprintf("{%s: %s}", k.Place, k.Name)
}

// readKey reads key: {header: X-Tenant}.
func (d *document) readKey(n strictyaml.Node) {
	var f requestField
	fields := append(f.fields(), strictyaml.Field{Key: "path", Read: f.readAs("path")},
		strictyaml.Field{Key: "json", Read: f.readAs("body")})
	for i, field := range fields {
		fields[i].Read = func(n strictyaml.Node) {
			field.Read(n)
			if isShown := f.place == "header" || f.place == "query"; isShown && namesCredential(f.name) {
				n.Mistake("%s is a credential, and keys are shown in logs: write another place that tells the keys "+
					"apart, or give the key with Ration-Key", f.name)
			}
		}
	}
	before := n.Mistakes()
	if n.Fields(fields...); f.place == "" && n.Mistakes() == before {
		n.Mistake("a key has one place: write {header: X-Tenant}, {path: base}, {query: site} or {body: tenant.id}")
	}
	d.Key = KeyPlace{f.place, f.name}
	d.site.key = f
}

// namesCredential reports whether a header or a query parameter of this name
// most likely holds a credential.
func namesCredential(name string) bool {
	name = strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
	isNamed := slices.Contains([]string{"authorization", "proxyauthorization", "cookie", "key", "password", "signature",
		"sig"}, name)
	return isNamed || slices.ContainsFunc([]string{"apikey", "token", "secret"},
		func(part string) bool { return strings.Contains(name, part) })
}

// checkKey reports a key from a part of the path that no route has.
func (d *document) checkKey() {
	isNamed := func(p *pattern) bool {
		return slices.ContainsFunc(p.segments,
			func(s segment) bool { return s.kind == anySegment && s.name == d.Key.Name })
	}
	if d.Key.Place == "path" && !slices.ContainsFunc(d.site.patterns, isNamed) {
		d.at["key"].Mistake("no route has a part {%s}: write one, such as \"/v1/{%[1]s}/{rest...}\": read, or another "+
			"place", d.Key.Name)
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
	for _, b := range d.budgets {
		at := b.keys["keys"]
		switch {
		case len(b.Keys) == 0:
		case !b.PerKey:
			at.Mistake("keys without per: all calls count together: write per: key beside it")
		case len(b.Floor) > 0:
			at.Mistake("keys beside floor: write one of them, since the floors are parts of one limit")
		}
	}
}

// keyOf returns the key of a request, or the reason why it is not certain. It
// is "" if the request has none, or a body in which it cannot be found.
func (s *site) keyOf(req *http.Request) (key, reason string) {
	var values []any
	switch s.key.place {
	case "":
		return "", ""
	case "path":
		values = s.partOf(req, s.key.name)
	default:
		if values, reason = s.key.values(req); reason != "" && s.key.place != "body" {
			return "", reason
		}
	}
	var keys []string
	for _, value := range values {
		if text, ok := textOf(value); ok {
			keys = append(keys, text)
		}
	}
	if len(keys) == 0 {
		return "", ""
	}
	if slices.ContainsFunc(keys, func(other string) bool { return other != keys[0] }) {
		return "", fmt.Sprintf("its %s, the key, has several values; give one", s.key.String())
	}
	if engine.CheckKey(keys[0]) != nil {
		return "", fmt.Sprintf("its %s, the key, is not a text of at most %d bytes; shorten it", s.key.String(),
			quota.MaxKey)
	}
	return keys[0], ""
}

// partOf returns the text of a part of a request's path.
func (s *site) partOf(req *http.Request, name string) []any {
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
			return []any{text}
		}
	}
	return nil
}
