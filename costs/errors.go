package costs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/strictyaml"
)

var (
	// ErrNoRoute matches every *PriceError for a request to a guarded host that
	// is not clearly one of the upstream's methods. It must not be sent.
	ErrNoRoute = errors.New("costs: no route")
	// ErrNoCost matches every *PriceError or *MethodError for a method without
	// a cost in costs.yaml. It must not be called.
	ErrNoCost = errors.New("costs: no cost")
	// ErrUnknown matches every *MethodError for a method or an upstream that
	// does not exist, probably a typo. Such an error matches ErrNoCost too.
	ErrUnknown = fmt.Errorf("%w: unknown", ErrNoCost)
	// ErrNoBudget matches every *MethodError for a method that no
	// budget covers.
	ErrNoBudget = errors.New("costs: no budget")
	// ErrManyUpstreams matches every *MethodError for a method of several
	// upstreams of which none was named.
	ErrManyUpstreams = errors.New("costs: several upstreams have the method")
)

// PriceError is returned for a request to a guarded host that has no certain
// price. It does not include the query, userinfo or key of the URL.
type PriceError struct {
	Verb   string
	Host   string
	Path   string // escaped, as in a request line
	Method string // "" if none was found
	Reason string // what is wrong, and what to do
	kind   error  // ErrNoRoute or ErrNoCost
}

// Error names the request and the reason.
func (e *PriceError) Error() string {
	const most = 200
	if e.Host+e.Path == "" {
		return strictyaml.Redact("the request is refused: " + e.Reason)
	}
	what := human.Shorten(strings.TrimSpace(redactVerb(e.Verb)+" "+redact(e.Host+e.Path)), most)
	return strictyaml.Redact(fmt.Sprintf("%q is refused: %s", what, e.Reason))
}

// Unwrap returns ErrNoRoute or ErrNoCost.
func (e *PriceError) Unwrap() error { return e.kind }

// MethodError is returned for a method, given by name, that cannot be charged.
type MethodError struct {
	Upstream string // as given; may be empty
	Method   string
	Reason   string // what is wrong, and what to do
	kind     error  // ErrNoCost, ErrUnknown, ErrNoBudget, quota.ErrNeverFits or ErrManyUpstreams
}

// Error names the method and the reason.
func (e *MethodError) Error() string {
	return strictyaml.Redact(fmt.Sprintf("%q %s", redact(e.Method), e.Reason))
}

// Unwrap returns ErrNoCost, ErrUnknown, ErrNoBudget, quota.ErrNeverFits or
// ErrManyUpstreams.
func (e *MethodError) Unwrap() error { return e.kind }
