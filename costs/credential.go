package costs

import (
	"fmt"
	"net/textproto"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/ration-dev/ration/internal/strictyaml"
)

// Credential says how requests to the hosts of an upstream are authorized. Only
// package gateway reads the file; a Go program adds its credentials itself.
type Credential struct {
	File   string // holds the secret and nothing else; an absolute path after Load
	Header string // the header that gets the secret, such as Authorization; "" if Query is set
	Prefix string // precedes the secret in the header, such as "Bearer "
	Query  string // the query parameter that gets the secret, such as key; "" if Header is set
}

// String describes the credential without the secret.
func (c *Credential) String() string {
	if c.Query != "" {
		return fmt.Sprintf("query parameter %s from %s", c.Query, c.File)
	}
	return strings.TrimSpace(fmt.Sprintf("header %s: %s", c.Header, c.Prefix)) + " from " + c.File
}

// CheckCredentials returns an error for the first credential whose file is not
// in folder or below it, symbolic links resolved. A program
// that reads whichever costs.yaml it finds in the working folder must call it:
// the file's author may not be the user, and names both the secret and where
// it goes.
func (t *Table) CheckCredentials(folder string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return fmt.Errorf("costs: credential: %w", err)
	}
	for _, u := range t.upstreams {
		if u.Credential != nil && !isBelow(resolved(u.Credential.File), resolved(folder)) {
			return fmt.Errorf("credential of %s: %s is not below %s, where costs.yaml was found but not named, so "+
				"another author could have it sent away; move it there, or name the folder with --config if you "+
				"trust its costs.yaml",
				u.Name, u.Credential.File, folder)
		}
	}
	return nil
}

// resolved returns a path without symbolic links. Of a file that does not exist
// it resolves the folder.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(folder, filepath.Base(path))
	}
	return path
}

func isBelow(path, folder string) bool {
	within, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(within)
}

func (d *document) readCredential(n strictyaml.Node) {
	var c Credential
	before := n.Mistakes()
	n.Fields(
		strictyaml.Field{Key: "file", Missing: "file: upstream.key, which holds the secret and nothing else",
			Read: func(n strictyaml.Node) { c.File = d.readSecretFile(n) }},
		strictyaml.Field{Key: "header", Read: func(n strictyaml.Node) { c.Header = readHeaderName(n) }},
		strictyaml.Field{Key: "prefix", Read: func(n strictyaml.Node) { c.Prefix = readPrefix(n) }},
		strictyaml.Field{Key: "query", Read: func(n strictyaml.Node) { c.Query = readParameter(n) }},
	)
	switch {
	case n.Mistakes() > before:
		return
	case c.Header == "" && c.Query == "":
		n.Mistake("nothing gets the credential: write header: Authorization, or query: key")
	case c.Header != "" && c.Query != "":
		n.Mistake("a credential goes into a header or into the query: write one of them")
	case c.Query != "" && c.Prefix != "":
		n.Mistake("a prefix belongs to a header: remove it, or write header in place of query")
	default:
		d.Credential = &c
	}
}

// readSecretFile reads the path of a file that holds a secret. A relative one
// is resolved relative to costs.yaml.
func (d *document) readSecretFile(n strictyaml.Node) string {
	path := n.Text(anything)
	switch {
	case path == "":
		return ""
	case strings.HasPrefix(path, "~"):
		n.Mistake("file begins with ~, which only a shell expands: write the whole path")
		return ""
	case looksSecret(path):
		n.Mistake("file looks like the secret itself: write the path of a file that holds it")
		return ""
	case !filepath.IsAbs(path):
		path = filepath.Join(d.dir, path)
	}
	return filepath.Clean(path)
}

// looksSecret reports whether a text is a key that was written in place of
// a path.
func looksSecret(text string) bool {
	prefixes := []string{"AIza", "sk-", "ghp_", "github_pat_", "xoxb-", "xoxp-", "Bearer "}
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}

// ownHeaders are set by net/http or by the gateway itself.
var ownHeaders = []string{"Accept-Encoding", "Connection", "Content-Length", "Expect", "Host", "Keep-Alive",
	"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

func readHeaderName(n strictyaml.Node) string {
	name := n.Text(maxText)
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch {
	case name == "":
	case !httpguts.ValidHeaderFieldName(name):
		n.Mistake("not the name of a header: write letters, digits and hyphens, such as Authorization")
	case slices.Contains(ownHeaders, canonical) || strings.HasPrefix(canonical, "Ration-"):
		n.Mistake("%s is not for credentials: write the header that the upstream reads, such as Authorization",
			canonical)
	default:
		return canonical
	}
	return ""
}

// readPrefix reads what precedes the secret. Unlike other texts it may end with
// a space, and mostly does.
func readPrefix(n strictyaml.Node) string {
	text := n.PaddedText(maxText)
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		n.Mistake("a header has other characters: write letters, digits and spaces, such as \"Bearer \"")
		return ""
	}
	return text
}

func readParameter(n strictyaml.Node) string {
	name := n.Text(maxText)
	if strings.ContainsFunc(name,
		func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("&=#;+%", r) }) {
		n.Mistake("not the name of a query parameter: write letters, digits, hyphens and underscores, such as key")
		return ""
	}
	return name
}
