package engine

import "testing"

// TestABucketStaysSpentWhenItsOldestRecordsAreForgotten: one that is used as
// fast as it refills lacks what was taken long ago.
func TestABucketStaysSpentWhenItsOldestRecordsAreForgotten(t *testing.T) {
	const second = 1_000_000
	b := &Budget{Name: "bucket", Limit: 10, Window: Window{Kind: Bucket, Restore: 1, Every: second}}
	var records []drawnRecord
	for i := range int64(100) {
		r := Record{Kind: KindGrant, ID: ID{drawnClient, uint64(i + 1)}, At: (i + 1) * second}
		r.Amounts = Amounts{Units: 1, Calls: 1}
		if i == 0 {
			r.Amounts.Units = b.Limit
		}
		records = append(records, drawnRecord{r, uint64(i + 1)})
	}
	f := foldOf(records, true, []*Budget{b})
	now := int64(100 * second)
	check := func(when string) {
		t.Helper()
		if used := f.held(b, "", now).Used; used < b.Limit {
			t.Errorf("%s: %d are used; want at least %d", when, used, b.Limit)
		}
	}
	check("before")
	f.trim(now - b.horizon())
	check("after the records were forgotten")
	f.forgetMeters()
	check("with a new meter")
}
