package web_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

func TestLook(t *testing.T) {
	b := newBrowser(t)
	file := filepath.Join(t.TempDir(), "ration.db")
	past(t, file, time.Now())
	s := newScene(t, sceneOptions{ledger: file, regions: sceneRegions, every: 200 * time.Millisecond})
	s.spend("videos.list", "US", "trending", 3)
	for range 20 {
		call, _ := s.Table().Call("", "search.list")
		call.Caller = quota.Caller{Lane: "cron", Region: "DE", Job: "search:music"}
		_, err := s.Guard().Spend(t.Context(), call)
		s.RecordRefusal(err)
	}
	_ = s.Guard().Cool(t.Context(), quota.Cooldown{Account: "my-project", Budget: "youtube-search", For: 40 * time.Minute, Reason: "403 quotaExceeded"})
	p := b.open()
	for name, d := range map[string]struct {
		w, h   int
		scheme string
	}{"light": {1280, 1900, "light"}, "dark": {1280, 1900, "dark"}, "phone": {390, 2400, "light"}} {
		p.dress(d.w, d.h, d.scheme)
		p.visit(s.url + "/?by=region&call=search.list&region=DE")
		t.Log(p.eval("document.documentElement.outerHTML.slice(0,3000)"))
		p.until("document.querySelector('#live').textContent === 'Live'")
		p.until("document.querySelector('.legend data')")
		os.WriteFile("/tmp/web-"+name+".png", p.picture(), 0o600)
	}
	t.Log(p.complaints())
}
