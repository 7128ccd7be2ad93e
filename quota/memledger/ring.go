package memledger

// chunkSize is the number of values in a full chunk.
const (
	chunkBits = 10
	chunkSize = 1 << chunkBits
)

// ring is a queue of values in chunks, so that growing copies little. The place
// of a value does not change while it is in the ring; places have a gap after
// the ring was empty. T has no pointers, so the garbage collector does not scan
// the chunks.
type ring[T any] struct {
	chunks     [][]T
	head, tail int // the place of the oldest value, and the place after the newest
	spare      []T
}

func (r *ring[T]) at(place int) *T {
	return &r.chunks[place>>chunkBits-r.head>>chunkBits][place&(chunkSize-1)]
}

// push adds a value. The first chunk grows as needed, since most rings
// are short.
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
	case r.head == r.tail: // start again with a small chunk
		r.head = (r.head/chunkSize + 1) * chunkSize
		r.tail = r.head
		r.chunks = nil
		r.spare = nil
	}
}

// search returns the first place at which after reports true, or the tail if
// there is none; after must be monotonic. The search starts at guess, and takes
// a number of steps that is logarithmic in how far off guess is.
func (r *ring[T]) search(guess int, after func(*T) bool) int {
	low, high := r.head, r.tail
	step := 1
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
