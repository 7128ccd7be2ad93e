package redisledger

const (
	// sumsPage is the number of records that one LRANGE reads. That takes some
	// 200 µs of the server's time, a sixth of what a script would take to
	// return them.
	sumsPage = 4000
	// maxAhead is the number of pages that are read while one is added up, so
	// that the server, the connections and the sums work at once.
	maxAhead = 3
)

// readAhead reads the pages of a list, several at once. Each page begins with
// the last record of the page before it.
type readAhead struct {
	read      func(first, last int64) ([]string, error)
	requested []chan recordPage
	first     int64 // of the next page to request
	expected  int64 // the last record to read, if no more come before it meanwhile
}

// recordPage is the answer to one LRANGE.
type recordPage struct {
	first, last int64 // the indexes that were requested
	records     []string
	err         error
}

func (p *recordPage) full() bool { return int64(len(p.records)) > p.last-p.first }

// next returns the next page. If it is full, it requests the expected pages
// after it.
func (r *readAhead) next() recordPage {
	if len(r.requested) == 0 {
		r.request()
	}
	page := <-r.requested[0]
	r.requested = r.requested[1:]
	for page.full() && len(r.requested) < maxAhead && r.first < r.expected {
		r.request()
	}
	return page
}

func (r *readAhead) request() {
	answer := make(chan recordPage, 1)
	first, last := r.first, r.first+sumsPage-1
	if first < r.expected {
		last = min(last, r.expected)
	}
	r.requested, r.first = append(r.requested, answer), last
	go func() {
		records, err := r.read(first, last)
		answer <- recordPage{first, last, records, err}
	}()
}

// restart drops the pages that were requested, and continues at an index.
func (r *readAhead) restart(first, expected int64) {
	r.stop()
	r.first, r.expected = first, expected
}

// stop waits until nothing is being read.
func (r *readAhead) stop() {
	for _, answer := range r.requested {
		<-answer
	}
	r.requested = nil
}
