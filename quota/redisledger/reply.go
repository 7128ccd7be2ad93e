package redisledger

// reply reads a script's answer value by value. A missing value, or one of the
// wrong type, makes it bad.
type reply struct {
	values []any
	bad    bool
}

func newReply(value any) *reply {
	if values, ok := value.([]any); ok {
		return &reply{values: values}
	}
	return &reply{values: []any{value}}
}

func (r *reply) more() bool { return len(r.values) > 0 }

func (r *reply) next() any {
	if len(r.values) == 0 {
		r.bad = true
		return nil
	}
	value := r.values[0]
	r.values = r.values[1:]
	return value
}

func (r *reply) number() int64 {
	v, ok := r.next().(int64)
	r.bad = r.bad || !ok
	return v
}

func (r *reply) text() string {
	v, ok := r.next().(string)
	r.bad = r.bad || !ok
	return v
}
