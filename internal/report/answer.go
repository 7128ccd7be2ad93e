// This file reads an upstream's answer from a file, and says how ration
// would read it.

package report

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Answer is an upstream's answer, as far as it is known.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte

	Verb string // of the request; empty if it is not known
	URL  string
}

// ParseAnswer reads an answer in one of the forms in which people have them: as
// curl -i prints it, of which the last answer counts, or as an entry of a HAR
// file, or a whole one, of which the first error counts. A text that is neither
// is a body; its status is not known.
func ParseAnswer(data []byte) (*Answer, error) {
	text := bytes.TrimLeft(data, " \t\r\n\ufeff")
	switch {
	case bytes.HasPrefix(text, []byte("HTTP/")), bytes.HasPrefix(text, []byte("# ")):
		return parseRaw(text)
	case bytes.HasPrefix(text, []byte("{")):
		if answer, err := parseHAR(text); answer != nil || err != nil {
			return answer, err
		}
	}
	return &Answer{Header: http.Header{}, Body: data}, nil
}

// parseRaw reads what curl -i prints. Lines that begin with # are comments.
func parseRaw(data []byte) (*Answer, error) {
	answer := &Answer{Header: http.Header{}}
	for {
		head, rest := cutBlank(data)
		lines := strings.Split(strings.ReplaceAll(string(head), "\r\n", "\n"), "\n")
		for len(lines) > 0 && strings.HasPrefix(lines[0], "#") {
			lines = lines[1:]
		}
		if len(lines) == 0 {
			return nil,
				errors.New("the answer has no status line: begin with one such as HTTP/1.1 429 Too Many Requests")
		}
		fields := strings.Fields(lines[0])
		if len(fields) < 2 || !strings.HasPrefix(fields[0], "HTTP/") {
			return nil, fmt.Errorf("%q is not a status line: write one such as HTTP/1.1 429 Too Many Requests",
				lines[0])
		}
		status, err := strconv.Atoi(fields[1])
		if err != nil || status < 100 || status > 599 {
			return nil, fmt.Errorf("%q has no status from 100 to 599", lines[0])
		}
		answer.Status, answer.Header = status, http.Header{}
		answer.Body = rest
		for _, line := range lines[1:] {
			if name, value, ok := strings.Cut(line, ":"); ok {
				answer.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
			}
		}
		if !bytes.HasPrefix(rest, []byte("HTTP/")) {
			return answer, nil
		}
		data = rest // that was the answer to CONNECT, a redirect, or 100 Continue
	}
}

// cutBlank cuts data at the first blank line.
func cutBlank(data []byte) (head, rest []byte) {
	for _, blank := range []string{"\r\n\r\n", "\n\n"} {
		if before, after, ok := bytes.Cut(data, []byte(blank)); ok && (head == nil || len(before) < len(head)) {
			head, rest = before, after
		}
	}
	if head == nil {
		return bytes.TrimRight(data, "\r\n"), nil
	}
	return head, rest
}

// harEntry is the part of an entry of a HAR file that is about an answer.
type harEntry struct {
	Request struct {
		Method string `json:"method"`
		URL    string `json:"url"`
	} `json:"request"`
	Response *struct {
		Status  int `json:"status"`
		Headers []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"headers"`
		Content struct {
			Text     string `json:"text"`
			Encoding string `json:"encoding"`
		} `json:"content"`
	} `json:"response"`
}

// parseHAR reads a HAR file or one of its entries. It returns nil if data is
// neither.
func parseHAR(data []byte) (*Answer, error) {
	var file struct {
		harEntry
		Log struct {
			Entries []harEntry `json:"entries"`
		} `json:"log"`
	}
	if json.Unmarshal(data, &file) != nil {
		return nil, nil
	}
	entry := file.harEntry
	for i, candidate := range file.Log.Entries {
		isError := candidate.Response != nil && candidate.Response.Status >= http.StatusBadRequest
		if entry = candidate; isError || i == len(file.Log.Entries)-1 {
			break
		}
	}
	if entry.Response == nil || entry.Response.Status == 0 {
		return nil, nil
	}
	answer := &Answer{
		Status: entry.Response.Status, Header: http.Header{},
		Verb: entry.Request.Method, URL: entry.Request.URL,
	}
	for _, h := range entry.Response.Headers {
		answer.Header.Add(h.Name, h.Value)
	}
	answer.Header.Del("Content-Encoding") // the text is decoded
	answer.Body = []byte(entry.Response.Content.Text)
	if entry.Response.Content.Encoding == "base64" {
		body, err := base64.StdEncoding.DecodeString(entry.Response.Content.Text)
		if err != nil {
			return nil, fmt.Errorf("the content of the HAR entry is not base64: %w", err)
		}
		answer.Body = body
	}
	return answer, nil
}

// AddHeader adds a header that is written as Name: value.
func (a *Answer) AddHeader(text string) error {
	name, value, ok := strings.Cut(text, ":")
	if !ok || strings.TrimSpace(name) == "" {
		return fmt.Errorf("%q is not a header: write Name: value", text)
	}
	a.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	return nil
}
