package memledger

// chunkSize is how many values a chunk holds.
const (
	chunkBits = 10
	chunkSize = 1 << chunkBits
)

// ring is a queue of values in chunks, so that to grow copies nothing that is
// long. A place is the number of values ever pushed before, and so never moves;
// after a ring was empty there may be a gap.
// The values hold no pointers: a collection of garbage does not look at them.
type ring[T any] struct {
	chunks     [][]T
	head, tail int // the places of the oldest, and behind the newest
	spare      []T
}

func (r *ring[T]) at(place int) *T {
	return &r.chunks[place>>chunkBits-r.head>>chunkBits][place&(chunkSize-1)]
}

// push adds a value. The first chunk grows as it is needed: most rings are short.
func (r *ring[T]) push(v T) {
	n := len(r.chunks)
	if r.tail%chunkSize == 0 && (n == 0 || len(r.chunks[n-1]) == chunkSize) {
		fresh := r.spare
		if fresh == nil && n > 0 {
			fresh = make([]T, 0, chunkSize)
		}
		r.chunks, r.spare = append(r.chunks, fresh), nil
		n++
	}
	r.chunks[n-1] = append(r.chunks[n-1], v)
	r.tail++
}

// drop removes the oldest value.
func (r *ring[T]) drop() {
	r.head++
	switch {
	case r.head%chunkSize == 0:
		r.spare = r.chunks[0][:0]
		r.chunks[0] = nil
		r.chunks = r.chunks[1:]
	case r.head == r.tail: // begin again with a small chunk
		r.head = (r.head/chunkSize + 1) * chunkSize
		r.tail, r.chunks, r.spare = r.head, nil, nil
	}
}

// search returns the first place where after is true, which from some place on
// it is, and the tail when it is nowhere. It begins at a guess, and takes as many steps as the
// guess is far off in powers of two.
func (r *ring[T]) search(guess int, after func(*T) bool) int {
	low, high, step := r.head, r.tail, 1
	guess = min(max(guess, low), high)
	if guess < high && !after(r.at(guess)) {
		for low = guess + 1; low+step <= high && !after(r.at(low+step-1)); step *= 2 {
			low += step
		}
		high = min(high, low+step-1)
	} else {
		for high = guess; high-step >= low && after(r.at(high-step)); step *= 2 {
			high -= step
		}
		low = max(low, high-step)
	}
	for low < high {
		if middle := (low + high) / 2; after(r.at(middle)) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}
