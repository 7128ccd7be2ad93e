package youtubetest

import (
	"encoding/base64"
	"encoding/binary"
)

// A page token is the protocol buffer {1: offset, 2: direction} in unpadded
// base64url. This reproduces every chart and search token recorded from 2018
// to 2023: CAUQAA is 5, CDIQAA 50, CGQQAA 100, CJYBEAA 150; CBkQAQ is back
// from 25.

const (
	tagOffset    = 1 << 3 // field 1, varint
	tagDirection = 2 << 3 // field 2, varint
)

// pageToken encodes the page that begins at offset or, backwards, ends at it.
func pageToken(offset int, backwards bool) string {
	buf := binary.AppendUvarint([]byte{tagOffset}, uint64(offset))
	direction := byte(0)
	if backwards {
		direction = 1
	}
	return base64.RawURLEncoding.EncodeToString(append(buf, tagDirection, direction))
}

// parsePageToken decodes a token. It accepts only what pageToken returns.
func parsePageToken(token string) (offset int, backwards, ok bool) {
	buf, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(buf) < 4 || buf[0] != tagOffset {
		return 0, false, false
	}
	n, size := binary.Uvarint(buf[1:])
	if size <= 0 || n > 1<<31-1 || len(buf) != 1+size+2 {
		return 0, false, false
	}
	offset, backwards = int(n), buf[len(buf)-1] == 1
	return offset, backwards, pageToken(offset, backwards) == token
}

// pageInfo is part of every paged answer.
type pageInfo struct {
	TotalResults   int `json:"totalResults"`
	ResultsPerPage int `json:"resultsPerPage"`
}

// pageOf returns the page of a list that maxResults (least to 50, by default 5)
// and pageToken name, with the tokens of the pages around it.
func pageOf[T any](r *request, kind string, all []T, least int, show func(T) resource) (*listing, *apiError) {
	size, bad := r.integer("maxResults", 5, least, 50)
	if bad != nil {
		return nil, bad
	}
	from, to := 0, size
	n := len(all)
	if token := r.query.Get("pageToken"); token != "" {
		offset, backwards, ok := parsePageToken(token)
		if !ok {
			return nil, errPageToken()
		}
		from, to = offset, offset+size
		if backwards {
			from, to = max(0, offset-size), offset
			to = min(to, from+size)
		}
	}
	from, to = min(from, n), min(to, n)
	l := &listing{Kind: kind, PageInfo: &pageInfo{TotalResults: n, ResultsPerPage: size}}
	if to < n && to > from {
		l.NextPageToken = pageToken(to, false)
	}
	if from > 0 {
		l.PrevPageToken = pageToken(from, true)
	}
	for _, item := range all[from:to] {
		l.Items = append(l.Items, show(item))
	}
	return l, nil
}
