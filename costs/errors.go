package costs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ration-dev/ration/costs/strictyaml"
)

var (
	// ErrNoRoute is every *PriceError for a request to a guarded host that is
	// not plainly one of the upstream's methods. It must not be sent.
	ErrNoRoute = errors.New("costs: no route")
	// ErrNoCost is every *PriceError or *MethodError for a method that
	// costs.yaml does not price. It must not be called.
	ErrNoCost = errors.New("costs: no cost")
	// ErrNoBudget is every *MethodError for a method that no budget covers.
	ErrNoBudget = errors.New("costs: no budget")
	// ErrNeverFits is every *MethodError for a method that costs more than a
	// budget which covers it could ever pay.
	ErrNeverFits = errors.New("costs: never fits")
	// ErrManyUpstreams means that several upstreams know a method and none was
	// named.
	ErrManyUpstreams = errors.New("costs: several upstreams know the method")
)

// PriceError says why a request to a guarded host is refused: it has no price
// that is sure. It holds no query, userinfo or key.
type PriceError struct {
	Verb   string
	Host   string
	Path   string // as it would go over the wire
	Method string // empty: none was found
	Reason string // ends in what to do
	kind   error  // ErrNoRoute or ErrNoCost
}

// Error names the request and why it is refused.
func (e *PriceError) Error() string {
	const most = 200
	what := strings.TrimSpace(shownVerb(e.Verb) + " " + shown(e.Host+e.Path))
	if len(what) > most {
		what = strings.ToValidUTF8(what[:most], "") + "…"
	}
	return strictyaml.Redact(fmt.Sprintf("%q is refused: %s", what, e.Reason))
}

// Unwrap returns ErrNoRoute or ErrNoCost.
func (e *PriceError) Unwrap() error { return e.kind }

// MethodError says why a method named by hand has no price.
type MethodError struct {
	Upstream string // as it was named; may be empty
	Method   string
	Reason   string // ends in what to do
	kind     error  // ErrNoCost, ErrNoBudget, ErrNeverFits or ErrManyUpstreams
}

// Error names the method and why it has no price.
func (e *MethodError) Error() string {
	return strictyaml.Redact(fmt.Sprintf("%q %s", shown(e.Method), e.Reason))
}

// Unwrap returns ErrNoCost, ErrNoBudget, ErrNeverFits or ErrManyUpstreams.
func (e *MethodError) Unwrap() error { return e.kind }
