package costs

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/ration-dev/ration/internal/files"
)

// maxBody is the most bytes of a request's body that Price reads.
const maxBody = 1 << 20

// readBody returns the body of a request and restores it. ok is false if the
// body is compressed or longer than maxBody, or has not arrived when the
// request's context ends.
func readBody(req *http.Request) (body []byte, ok bool) {
	isCompressed := len(req.Header.Values("Content-Encoding")) > 0
	if isCompressed || req.ContentLength > maxBody {
		return nil, false
	}
	if req.Body == nil || req.Body == http.NoBody {
		return nil, true
	}
	most := maxBody + 1
	if req.ContentLength > 0 {
		most = int(req.ContentLength)
	}
	ahead := files.ReadAhead(req.Body, most)
	req.Body = ahead
	select {
	case <-ahead.Done():
	case <-req.Context().Done():
	}
	body, whole := ahead.Stop()
	if req.ContentLength > 0 {
		return body, int64(len(body)) == req.ContentLength
	}
	return body, whole && len(body) <= maxBody
}

// bodyField returns the values at a path, such as model or options.size, of a
// request's JSON object or form. There are several if keys are repeated, in any
// case, since parsers differ in which one they use. ok is false if the body
// cannot be read.
func bodyField(req *http.Request, path string) (values []any, ok bool) {
	body, ok := readBody(req)
	if !ok || len(body) == 0 {
		return nil, ok
	}
	if strings.HasPrefix(req.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return parameters(string(body), path)
	}
	if !json.Valid(body) {
		return nil, false
	}
	return membersAt(nil, body, strings.Split(path, ".")), true
}

// membersAt appends the values at a path of a valid JSON text to values.
func membersAt(values []any, text json.RawMessage, path []string) []any {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if len(path) == 0 {
		var value any
		if decoder.Decode(&value) == nil && value != nil {
			values = append(values, value)
		}
		return values
	}
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return values
	}
	for decoder.More() {
		key, err := decoder.Token()
		var value json.RawMessage
		if err != nil || decoder.Decode(&value) != nil {
			break
		}
		if name, _ := key.(string); strings.EqualFold(name, path[0]) {
			values = membersAt(values, value, path[1:])
		}
	}
	return values
}
