package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/inbound"
)

const (
	maxBody        = 1 << 20          // of a request to the API
	maxWait        = 10 * time.Minute // of one request; longer ones are cut to it
	maxIdempotency = 255              // bytes of an Idempotency-Key
)

// EstimateLease is how long the cost of a spend counts as reserved that gives
// its units, unless it is settled or reported before: costs.yaml does not fix
// it.
const EstimateLease = 2 * time.Minute

// spendRequest is the body of POST /v1/spend: a call by its method, or by the
// verb and URL of its request.
type spendRequest struct {
	Method   string       `json:"method"`
	Upstream string       `json:"upstream"`
	Verb     string       `json:"verb"`
	URL      string       `json:"url"`
	Units    *quota.Units `json:"units"`
	Amounts  Amounts      `json:"amounts"`
	Calls    *int         `json:"calls"`
	Lane     string       `json:"lane"`
	Job      string       `json:"job"`
	Region   string       `json:"region"`
	Key      string       `json:"key"`
	MaxWait  span         `json:"max_wait"`
}

// span is a duration such as "30s", or a number of seconds.
type span time.Duration

// UnmarshalJSON implements json.Unmarshaler. It leaves d as it is for null.
func (d *span) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	text := string(bytes.Trim(data, `"`))
	parsed, err := human.ParseSeconds(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration: write seconds, or one such as 30s", text)
	}
	*d = span(parsed)
	return nil
}

// call returns the call that is asked for, and how many of it.
func (s *spendRequest) call(table *costs.Table) (call quota.Call, count int, err error) {
	switch {
	case s.Method != "" && s.URL == "" && s.Verb == "":
		call, err = table.Call(s.Upstream, s.Method)
	case s.Method == "" && s.Upstream == "" && s.URL != "":
		quote, failed := table.Quote(s.Verb, s.URL)
		if err = failed; err == nil && (!quote.Guarded || quote.Paid) {
			err = fmt.Errorf("%w: the URL's host is not guarded, or its request was charged with an earlier one; "+
				"send it without asking", quota.ErrBadCall)
		}
		call = quote.Call
	default:
		err = fmt.Errorf("%w: name a method, or a url and its verb, and not both", quota.ErrBadCall)
	}
	switch {
	case s.Units == nil:
	case *s.Units < 1:
		err = errors.Join(err, fmt.Errorf("%w: %d units; give at least 1", quota.ErrBadCall, *s.Units))
	default:
		call.Units, call.Lease = *s.Units, EstimateLease
	}
	if err == nil {
		err = s.Amounts.Set(table, &call)
	}
	if count = 1; s.Calls != nil {
		count = *s.Calls
	}
	return call, count, err
}

// spend answers POST /v1/spend.
func (g *Gateway) spend(w http.ResponseWriter, r *http.Request, c *connected) (any, error) {
	var asked spendRequest
	if err := g.readJSON(w, r, &asked); err != nil {
		return nil, err
	}
	call, count, err := asked.call(c.Table())
	if err == nil {
		call.Caller, err = g.callerOf(r, c.Table(),
			quota.Caller{Lane: asked.Lane, Job: asked.Job, Region: asked.Region})
	}
	if err == nil {
		var key string
		key, err = keyOf(r, asked.Key)
		call.Key = cmp.Or(key, call.Key) // that of its URL
	}
	if err == nil {
		call.ID, err = idempotencyID(r, call, asked.Given(), count)
	}
	var grants []*quota.Grant
	if err == nil {
		grants, err = c.SpendTogether(r.Context(), call, count, min(time.Duration(asked.MaxWait), maxWait))
	}
	if err != nil {
		if r.Context().Err() != nil {
			panic(http.ErrAbortHandler) // the client has gone
		}
		sessionOf(r).recordRefusal(err)
		return nil, c.refusal(call, count, err)
	}
	if r.Context().Err() != nil { // the client has gone, and cannot know of the grants
		if call.ID == (quota.ID{}) {
			for _, grant := range grants {
				_ = grant.Refund(r.Context())
			}
		}
		panic(http.ErrAbortHandler)
	}
	sessionOf(r).recordGrant()
	setBalances(w.Header(), grants[len(grants)-1].Balances())
	return NewSpend(c.Client, call, count, grants, nil, nil), nil
}

// idempotencyID returns the id of a call that may be repeated, or the zero ID
// of one that may not.
func idempotencyID(r *http.Request, call quota.Call, given Given, count int) (quota.ID, error) {
	key, err := single(r, "Idempotency-Key")
	if err == nil && key == "" && len(r.Header.Values("Idempotency-Key")) > 0 {
		err = fmt.Errorf("%w: the Idempotency-Key is empty, and every repeat would be charged; give one, or leave "+
			"the header out", quota.ErrBadCall)
	}
	if err != nil {
		return quota.ID{}, err
	}
	return CallID(key, call, given, count)
}

// CallID returns the ID of count calls that are repeated with the same
// idempotency key, here or by command ration; the zero ID for the key "". Of
// the cost only what the caller gave counts, since prices may change before the
// repeat. An account has keys of its own.
func CallID(key string, call quota.Call, given Given, count int) (quota.ID, error) {
	if len(key) > maxIdempotency {
		return quota.ID{}, fmt.Errorf("%w: an idempotency key of %d bytes; give at most %d", quota.ErrBadCall, len(key),
			maxIdempotency)
	}
	if key == "" {
		return quota.ID{}, nil
	}
	what := fmt.Sprintf("%d of %q for %q", count, call.Method, call.Caller)
	if given.Units != nil {
		what += fmt.Sprintf(", %d units each", *given.Units)
	}
	if len(given.Amounts) > 0 {
		what += fmt.Sprintf(", %v each", given.Amounts)
	}
	return quota.NameID(call.Account+" "+key, what), nil
}

// readJSON reads a request's body, strictly. After an error, the connection's
// deadline stays, since the rest of the body may never arrive.
func (g *Gateway) readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	if sent := r.Header.Get("Content-Type"); sent != "" && sent != "application/json" {
		if kind, _, err := mime.ParseMediaType(sent); err != nil || kind != "application/json" {
			return newProblem(http.StatusUnsupportedMediaType, "not-json", "the body is %s; send application/json",
				inbound.HeaderText(sent))
		}
	}
	body := bytes.NewBuffer(make([]byte, 0, min(max(r.ContentLength, 0), maxBody)+bytes.MinRead))
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return newProblem(http.StatusRequestEntityTooLarge, "too-large", "a body of more than %d bytes", tooLong.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return newProblem(http.StatusRequestTimeout, "too-slow", "the body did not arrive within %s", g.limits.body)
	}
	if err != nil {
		return newProblem(http.StatusBadRequest, "bad-json", "the body could not be read: %v", err)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if len(bytes.TrimSpace(body.Bytes())) == 0 {
		body = bytes.NewBufferString("{}")
	}
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	err = decoder.Decode(into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return newProblem(http.StatusBadRequest, "bad-json", "%s has the wrong type: %s; see /v1/openapi.json",
			cmp.Or(wrong.Field, "the body"), wrong.Value)
	}
	if err != nil {
		return newProblem(http.StatusBadRequest, "bad-json", "the body is malformed: %s; see /v1/openapi.json",
			strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := decoder.Token(); err != io.EOF {
		return newProblem(http.StatusBadRequest, "bad-json", "the body goes on after the document")
	}
	return nil
}
