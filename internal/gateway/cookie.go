package gateway

import (
	"net/textproto"
	"slices"
	"strings"
)

// PageCookie is the cookie of the page that HandlePage adds. It reaches no
// upstream, and no upstream can set it.
const PageCookie = "ration-page"

// ownCookies returns Set-Cookie lines that set their cookies for the paths of
// the target on the gateway only, with their values as they are. It drops the
// page's cookie and cookies without a name. Browsers refuse one whose name
// begins with __Host-, because its path is not the root.
func (t *target) ownCookies(lines []string) (own []string) {
	for _, line := range lines {
		pair, rest, _ := strings.Cut(line, ";")
		if name := cookieName(pair); name == "" || name == PageCookie {
			continue
		}
		path := t.defaultPath()
		attributes := slices.DeleteFunc(strings.Split(rest, ";"), func(attribute string) bool {
			name, value, _ := strings.Cut(attribute, "=")
			name, value = textproto.TrimString(name), textproto.TrimString(value)
			isPath := strings.EqualFold(name, "Path")
			if isPath && strings.HasPrefix(value, "/") {
				path = value
			} else if isPath {
				path = t.defaultPath()
			}
			return isPath || name == "" || strings.EqualFold(name, "Domain")
		})
		attributes = append(attributes, " Path=/to/"+t.host+path)
		own = append(own, pair+";"+strings.Join(attributes, ";"))
	}
	return own
}

// cookieName returns the name of a cookie, or "" if pair has none.
func cookieName(pair string) string {
	name, _, found := strings.Cut(pair, "=")
	if !found {
		return ""
	}
	return textproto.TrimString(name)
}

// defaultPath returns the path of cookies that name none: the folder of the
// request's path (RFC 6265, section 5.1.4), or "" for the root.
func (t *target) defaultPath() string {
	path, _, _ := strings.Cut(t.url.EscapedPath(), ";") // which would end the attribute
	return path[:max(0, strings.LastIndexByte(path, '/'))]
}

// withoutPageCookie returns Cookie lines without the page's cookie.
func withoutPageCookie(lines []string) (others []string) {
	for _, line := range lines {
		pairs := slices.DeleteFunc(strings.Split(line, ";"), func(pair string) bool {
			name, _, _ := strings.Cut(pair, "=")
			return textproto.TrimString(name) == PageCookie
		})
		if len(pairs) > 0 {
			others = append(others, textproto.TrimString(strings.Join(pairs, ";")))
		}
	}
	return others
}
