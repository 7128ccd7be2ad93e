package youtubetest

import (
	"maps"
	"net/url"
	"slices"
	"time"
)

// Arrival is one request that reached the server. It never holds the key.
type Arrival struct {
	At     time.Time  // by the server's clock
	Method string     // "search.list"; "" if there is no such method
	Path   string     // as sent
	Query  url.Values // without the key
	Region string     // regionCode in upper case; "" if the request named none
	KeyIn  string     // where the key was: "header" or "query"; "" if there was none
	Bucket string     // the bucket charged; "" if nothing was
	Units  int64      // charged; 0 for a call that was refused or cost nothing
	Status int        // sent; 0 if a fault left the client without a status
	Fault  bool       // a Fault changed the answer
}

// Arrivals returns a copy of the record of every request since New, oldest
// first. Nothing is ever removed from the record: a server's memory grows by a
// few hundred bytes with each request.
func (s *Server) Arrivals() []Arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.arrivals)
	for i := range all {
		all[i].Query = maps.Clone(all[i].Query)
	}
	return all
}

// Total returns the units charged for arrivals since New, over all buckets
// and windows.
func (s *Server) Total() int64 {
	return s.Sum(func(Arrival) string { return "" })[""]
}

// Sum returns the units charged for arrivals since New, grouped by the result
// of by. Groups without a charge are absent.
//
//	byRegion := upstream.Sum(func(a youtubetest.Arrival) string { return a.Region })
func (s *Server) Sum(by func(Arrival) string) map[string]int64 {
	s.mu.Lock()
	all := slices.Clone(s.arrivals)
	s.mu.Unlock()
	sums := map[string]int64{}
	for _, a := range all {
		if a.Units > 0 {
			sums[by(a)] += a.Units
		}
	}
	return sums
}
