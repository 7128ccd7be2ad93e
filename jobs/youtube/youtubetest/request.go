package youtubetest

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// listing is the answer of a list method and resource is one item of it. They
// have the fields of all methods; absent ones are omitted.
type listing struct {
	Kind          string     `json:"kind"`
	Etag          string     `json:"etag"`
	NextPageToken string     `json:"nextPageToken,omitempty"`
	PrevPageToken string     `json:"prevPageToken,omitempty"`
	RegionCode    string     `json:"regionCode,omitempty"`
	PageInfo      *pageInfo  `json:"pageInfo,omitempty"`
	Items         []resource `json:"items"`
}

type resource struct {
	Kind           string `json:"kind"`
	Etag           string `json:"etag"`
	ID             any    `json:"id"`
	Snippet        any    `json:"snippet,omitempty"`
	ContentDetails any    `json:"contentDetails,omitempty"`
	Status         any    `json:"status,omitempty"`
	Statistics     any    `json:"statistics,omitempty"`
}

// encode sets the etags, which depend only on the content, and returns
// the body.
func (l *listing) encode(req *request) []byte {
	if l.Items == nil {
		l.Items = []resource{}
	}
	for i := range l.Items {
		l.Items[i].Etag = etag(l.Items[i])
	}
	l.Etag = etag(l)
	return encode(l, req)
}

// etag has the length of today's etags: 27 characters, unquoted.
func etag(v any) string {
	body, err := json.Marshal(v)
	if err != nil {
		panic("youtubetest: " + err.Error()) // only types of this package come here
	}
	sum := sha1.Sum(body)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// list reads a parameter that may be repeated, comma-joined or both.
func (r *request) list(name string) []string {
	var all []string
	for _, joined := range r.query[name] {
		for one := range strings.SplitSeq(joined, ",") {
			if one = strings.TrimSpace(one); one != "" {
				all = append(all, one)
			}
		}
	}
	return all
}

// ids reads the id parameter: at most 50 ids, without duplicates.
func (r *request) ids() ([]string, *apiError) {
	all := r.list("id")
	if len(all) > 50 {
		return nil, errInvalid("id", fmt.Sprintf("Invalid value: %d ids. At most 50 may be given in one request.",
			len(all)))
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(id string) bool {
		again := seen[id]
		seen[id] = true
		return again
	}), nil
}

// parts reads the part parameter, which must name at least one part, all known.
func (r *request) parts() (map[string]bool, *apiError) {
	parts, known := map[string]bool{}, strings.Fields(r.route.parts)
	for _, name := range r.list("part") {
		if name != "id" && !slices.Contains(known, name) {
			return nil, newError(400, "youtube.part", "unknownPart", name).at("part")
		}
		parts[name] = true
	}
	if len(parts) == 0 {
		return nil, newError(400, "global", "required", "Required parameter: part").at("part")
	}
	return parts, nil
}

func (r *request) integer(name string, otherwise, least, most int) (int, *apiError) {
	text := r.query.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || int(n) < least || int(n) > most {
		return 0, errInvalid(name, fmt.Sprintf("Invalid value '%s'. Values must be within the range: [%d, %d]", text,
			least, most))
	}
	return int(n), nil
}
