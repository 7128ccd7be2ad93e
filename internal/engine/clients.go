package engine

import (
	"slices"
)

// clientRecords finds the entries of a client. Most have consecutive numbers.
type clientRecords struct {
	id      uint64
	number  uint32 // in fold.clientIDs
	from    uint64
	entries []uint32 // of sequence numbers from `from` on; 0 is none
	others  map[uint64]uint32
}

// find returns the number of the entry with an id.
func (f *fold) find(id ID) (n uint32, ok bool) {
	c := f.lookUp(id.Client)
	if c == nil {
		return 0, false
	}
	if i := id.Seq - c.from; id.Seq >= c.from && i < uint64(len(c.entries)) {
		n = c.entries[i]
	} else if len(c.others) > 0 {
		n = c.others[id.Seq]
	}
	return n, n >= f.base && n < f.base+uint32(len(f.entries))
}

// lookUp returns the records of a client, or nil. The records of a batch are
// nearly all of one client.
func (f *fold) lookUp(id uint64) *clientRecords {
	if f.lastClient != nil && f.lastClient.id == id {
		return f.lastClient
	}
	c := f.clients[id]
	if c != nil {
		f.lastClient = c
	}
	return c
}

// client returns the records of a client, and adds it if it is new.
func (f *fold) client(id uint64) *clientRecords {
	c := f.lookUp(id)
	if c == nil {
		c = &clientRecords{id: id, number: uint32(len(f.clientIDs))}
		f.clients[id], f.lastClient = c, c
		f.clientIDs = append(f.clientIDs, id)
	}
	return c
}

func (f *fold) short(id ID) shortID { return shortID{f.client(id.Client).number, uint32(id.Seq)} }

func (f *fold) long(id shortID) ID { return ID{f.clientIDs[id.client], uint64(id.seq)} }

// any reports whether the client has an entry.
func (c *clientRecords) any() bool {
	if c == nil {
		return false
	}
	for _, n := range c.others {
		if n != 0 {
			return true
		}
	}
	return slices.ContainsFunc(c.entries, func(n uint32) bool { return n != 0 })
}

// index makes an entry known to find.
func (f *fold) index(id ID, n uint32) {
	c := f.client(id.Client)
	if c.entries == nil && c.others == nil {
		c.from = id.Seq
	}
	const gap = 1024
	next := c.from + uint64(len(c.entries))
	if id.Seq < c.from || id.Seq >= next+gap {
		if c.others == nil {
			c.others = map[uint64]uint32{}
		}
		c.others[id.Seq] = n
		return
	}
	for ; next < id.Seq; next++ {
		c.entries = append(c.entries, c.others[next])
	}
	if i := id.Seq - c.from; i < uint64(len(c.entries)) {
		c.entries[i] = n
	} else {
		c.entries = append(c.entries, n)
	}
}
