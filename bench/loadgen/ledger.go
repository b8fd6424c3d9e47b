package main

import "sort"

// sending is one update message as its sender knows it.
type sending struct {
	sentAt, ackedAt int64   // ns since base; ackedAt 0: no success came back
	targets         []int64 // player ids, as the answer named them
}

// ledger holds what was sent and what arrived, to tell what was lost, repeated or out of order.
type ledger struct {
	sendings []sending
	got      map[int64][]int32 // player id -> indices of sendings, in the order of arrival
	missed   int64             // what the server said had fallen off
}

func newLedger() *ledger { return &ledger{got: map[int64][]int32{}} }

func (l *ledger) send() int {
	l.sendings = append(l.sendings, sending{sentAt: now()})
	return len(l.sendings) - 1
}

// judge compares. Call it when everything has been polled.
func (l *ledger) judge() map[string]int64 {
	var expected, received, lost, repeated, disordered, unknown int64
	want := map[int64][]int32{}
	for i := range l.sendings {
		for _, id := range l.sendings[i].targets {
			want[id] = append(want[id], int32(i))
		}
	}
	for id := range l.got {
		if _, ok := want[id]; !ok {
			want[id] = nil
		}
	}
	for id, indices := range want {
		expected += int64(len(indices))
		got := l.got[id]
		received += int64(len(got))
		latest := int64(0) // when the last of those that arrived so far was sent
		for _, i := range got {
			s := &l.sendings[i]
			// answered before something was sent that arrived earlier
			if s.ackedAt != 0 && s.ackedAt < latest {
				disordered++
			}
			latest = max(latest, s.sentAt)
		}
		sorted := append([]int32(nil), got...)
		sort.Slice(sorted, func(a, b int) bool { return sorted[a] < sorted[b] })
		j := 0
		for k, i := range sorted {
			if k > 0 && sorted[k-1] == i {
				repeated++
				continue
			}
			for j < len(indices) && indices[j] < i {
				lost++
				j++
			}
			if j < len(indices) && indices[j] == i {
				j++
			} else if l.sendings[i].ackedAt != 0 {
				unknown++ // arrived at somebody whom the answer did not name
			}
		}
		lost += int64(len(indices) - j)
	}
	return map[string]int64{"sent": int64(len(l.sendings)), "expected": expected, "received": received,
		"lost": lost, "repeated": repeated, "disordered": disordered, "astray": unknown, "missed": l.missed}
}
