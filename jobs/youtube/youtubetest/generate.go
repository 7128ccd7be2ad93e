package youtubetest

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"time"
)

// DefaultData makes data with the traits of real charts. It returns the same
// data each time:
//
//   - Eight regions (US GB DE FR IN BR AU CA) have 200 videos each, except AU with
//     120 and CA with 84. Some videos are in several regions.
//   - Titles are in a dozen scripts, with quotes, ampersands and emoji.
//   - Some ids begin with - or _; some channels have several videos.
//   - Some videos have no tags, no description, hidden likes or comments turned off.
//   - The categories 19, 27 and 29 have no chart.
func DefaultData() *Data {
	all := &generator{words: vocabulary(), used: map[string]bool{}}
	rnd := random(2026)
	var world []string
	for range 150 {
		world = append(world, all.video(&rnd, pick(&rnd, []string{"en", "en", "ko", "ja", "es", "hi"})))
	}
	charts := map[string][]string{}
	for _, r := range []struct {
		region string
		length int
		langs  []string
	}{
		{"US", 200, []string{"en", "en", "en", "es"}},
		{"GB", 200, []string{"en", "en", "en", "pa"}},
		{"DE", 200, []string{"de", "de", "de", "ru", "tr"}},
		{"FR", 200, []string{"fr", "fr", "fr", "ar"}},
		{"IN", 200, []string{"hi", "hi", "ta", "pa", "en"}},
		{"BR", 200, []string{"pt"}},
		{"AU", 120, []string{"en", "en", "zh"}},
		{"CA", 84, []string{"en", "fr", "pa"}},
	} {
		rnd := random(hash(r.region)) // so a region's chart does not depend on the others
		ids := slices.Clone(world)
		shuffle(&rnd, ids)
		ids = ids[:r.length*2/5]
		for len(ids) < r.length {
			ids = append(ids, all.video(&rnd, pick(&rnd, r.langs)))
		}
		shuffle(&rnd, ids)
		charts[r.region] = ids
	}
	return newData(all.videos, charts)
}

// generator makes videos with distinct ids.
type generator struct {
	words  map[string]words
	videos []*Video
	used   map[string]bool
}

func (g *generator) video(rnd *random, lang string) string {
	w := g.words[lang]
	subject, line := pick(rnd, w.subjects), pick(rnd, w.titles)
	category, title, _ := strings.Cut(line, " ")
	title = strings.ReplaceAll(title, "{}", subject)
	if rnd.below(3) == 0 {
		title += pick(rnd, []string{" 🔥", " 😱😱", " 🎶", " #shorts", " [4K]", " ❤️", " (Part 2)",
			" 🇺🇳"})
	}
	name := pick(rnd, w.channels)
	v := &Video{
		ID: g.id(rnd), Title: title, ChannelTitle: name, ChannelID: channelID(name), CategoryID: category,
		PublishedAt: time.Date(2026, 11, 19, 18, 0, 0, 0,
			time.UTC).Add(-time.Duration(rnd.below(12*24*3600)) * time.Second),
		Views: int64(20_000 + rnd.below(1000)*rnd.below(1000)*rnd.below(40)),
	}
	if rnd.below(20) > 0 {
		v.Description = title + "\n\nSubscribe & share: https://example.com/" + v.ID + "\n" +
			strings.Repeat(subject+" ", int(rnd.below(40)))
	}
	if rnd.below(8) > 0 {
		v.Tags = []string{strings.ToLower(subject), strings.ToLower(name), lang}
	}
	if likes := v.Views / int64(10+rnd.below(40)); rnd.below(33) > 0 {
		v.Likes = &likes
	}
	if comments := v.Views / int64(200+rnd.below(900)); rnd.below(25) > 0 {
		v.Comments = &comments
	}
	g.videos = append(g.videos, v)
	return v.ID
}

// id makes an id like YouTube's: 64 bits in base64url.
func (g *generator) id(rnd *random) string {
	for {
		id := base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, rnd.next()))
		if !g.used[id] {
			g.used[id] = true
			return id
		}
	}
}

// channelID derives a channel's id from its name: UC and 128 bits.
func channelID(name string) string {
	rnd := random(hash(name))
	bits := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, rnd.next()), rnd.next())
	return "UC" + base64.RawURLEncoding.EncodeToString(bits)
}

// random is splitmix64, which gives the same numbers in every release of Go.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *random) below(n uint64) uint64 { return r.next() % n }

func pick(r *random, from []string) string { return from[r.below(uint64(len(from)))] }

func shuffle(r *random, all []string) {
	for i := len(all) - 1; i > 0; i-- {
		j := int(r.below(uint64(i + 1)))
		all[i], all[j] = all[j], all[i]
	}
}
