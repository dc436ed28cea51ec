package query_test

import "testing"

// BenchmarkNumbers measures comparison and arithmetic of integers and fractions.
func BenchmarkNumbers(b *testing.B) {
	benchmarkRows(b, `SELECT VALUE c.priority * 3 + c.total - c._ts FROM c WHERE c.total BETWEEN 10 AND 900.5 AND c._ts > c.priority`)
}

// BenchmarkGroups measures aggregates of integers and fractions in a few groups.
func BenchmarkGroups(b *testing.B) {
	docs := stored(1000)
	rows := bound(b, `SELECT c.priority, SUM(c.total) AS s, SUM(c._ts) AS t, MAX(c.total) AS m, AVG(c.priority) AS a FROM c GROUP BY c.priority`, nil).Rows()
	groups := rows.Groups(100, nil)
	visit := func() bool {
		groups.Add()
		return true
	}
	b.SetBytes(int64(len(docs[0])))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := rows.Each(docs[i%len(docs)], visit); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOrderKeys measures the sort keys of two numbers.
func BenchmarkOrderKeys(b *testing.B) {
	docs := stored(1000)
	rows := bound(b, `SELECT * FROM c ORDER BY c.total, c._ts DESC`, nil).Rows()
	var key []byte
	visit := func() bool {
		key = rows.OrderKey(key[:0])
		return true
	}
	b.SetBytes(int64(len(docs[0])))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := rows.Each(docs[i%len(docs)], visit); err != nil {
			b.Fatal(err)
		}
	}
}
