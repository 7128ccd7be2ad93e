package web_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// readAxe returns the script of axe-core.
func readAxe(t *testing.T) string {
	t.Helper()
	file, err := os.Open("testdata/axe.min.js.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	script, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}

// violation is what axe found.
type violation struct {
	ID, Help string
	Nodes    []struct{ HTML, FailureSummary string }
}

// axe runs all rules on a tab, and returns what they found. The script comes by
// the protocol: the page's policy would forbid it.
func (p *tab) axe(script string) []violation {
	p.t.Helper()
	p.eval(script + "; true")
	text,
		_ := p.eval("axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(r.violations))").(string)
	var found []violation
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		p.t.Fatal(err)
	}
	return found
}

// TestAxeFindsNothing: on a phone and a desk, in dark and light, with
// everything folded out, while a cooldown is in force, with a search and
// an answer.
func TestAxeFindsNothing(t *testing.T) {
	p, script := newTab(t), readAxe(t)
	file := filepath.Join(t.TempDir(), "ration.db")
	past(t, file, time.Now())
	s := newScene(t, sceneOptions{ledger: file, regions: sceneRegions})
	s.refuse()
	s.finishPass("US")
	for _, width := range []int{390, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			p.dress(width, 900, scheme)
			path := "/" // an axe run takes seconds
			if scheme == "dark" || width < 600 {
				path = "/?by=job&q=region:DE+search&call=search.list&region=DE"
			}
			p.visit(s.url + path)
			p.until("document.querySelector('#live').textContent === 'Live'")
			p.until("document.querySelector('.legend data')")
			p.eval("document.querySelectorAll('details').forEach(e => e.open = true)")
			for _, v := range p.axe(script) {
				t.Errorf("%d wide, %s, %s: %s: %s: %+v", width, scheme, path, v.ID, v.Help, v.Nodes)
			}
			if p.eval("document.documentElement.scrollWidth <= innerWidth") != true {
				t.Errorf("%d wide: the page is %v wide", width, p.eval("document.documentElement.scrollWidth"))
			}
		}
	}
	for _, line := range p.complaints() {
		t.Errorf("the browser complains: %s", line)
	}
}

// TestAxeFindsNothingBesideThePage: the form for the token, and a message.
func TestAxeFindsNothingBesideThePage(t *testing.T) {
	p, script := newTab(t), readAxe(t)
	s := newScene(t, sceneOptions{token: strings.Repeat("t", 32)})
	p.visit(s.url + "/")
	for _, v := range p.axe(script) {
		t.Errorf("%s: %s: %+v", v.ID, v.Help, v.Nodes)
	}
	p.eval("document.querySelector('#token').value = 'no'; document.querySelector('form').submit()")
	p.until("document.querySelector('.wrong')")
	for _, v := range p.axe(script) {
		t.Errorf("%s: %s: %+v", v.ID, v.Help, v.Nodes)
	}
	p.eval("document.querySelector('#token').value = 't'.repeat(32); document.querySelector('form').submit()")
	p.until("document.querySelector('#live')?.textContent === 'Live'")
	p.eval("document.querySelector('header form').submit()")
	p.until("document.querySelector('#token')")
}
