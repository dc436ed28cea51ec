package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// values compares two JSON values at a path.
func (c *comparison) values(at string, want, have any) {
	switch w := want.(type) {
	case object:
		if h, ok := have.(object); ok {
			c.objects(at, w, h)
			return
		}
	case []any:
		if len(w) == 1 && w[0] == "<any>" {
			return
		}
		if h, ok := have.([]any); ok {
			c.lists(at, w, h)
			return
		}
	case json.Number:
		if h, ok := have.(json.Number); ok {
			c.numbers(at, w, h)
			return
		}
	case string:
		if form, ok := forms[w]; ok {
			number, isNumber := have.(json.Number)
			s, isText := have.(string)
			if form.number {
				s, isText = number.String(), isNumber
			}
			if !isText || !form.pattern.MatchString(s) {
				c.differs(classBody, at, want, have)
			}
			return
		}
	}
	if fmt.Sprintf("%T%s", want, format(want)) != fmt.Sprintf("%T%s", have, format(have)) {
		c.differs(classBody, at, want, have)
	}
}

func (c *comparison) numbers(at string, want, have json.Number) {
	if want == have {
		return
	}
	w, _ := want.Float64() // a number beyond a float64 differs below
	h, _ := have.Float64()
	class := classBody
	if w == h {
		class = classNumbers
	}
	c.differs(class, at, want, have)
}

func (c *comparison) objects(at string, want, have object) {
	var both, haveBoth []string
	for _, m := range want {
		h, ok := have.get(m.name)
		switch {
		case !ok:
			c.differs(classBody, at+"."+m.name, m.value, "(no member)")
			continue
		case m.name == "requestCharge":
			if format(m.value) != format(h) {
				c.differs(classCharge, at+"."+m.name, m.value, h)
			}
		default:
			c.values(at+"."+m.name, m.value, h)
		}
		both = append(both, m.name)
	}
	for _, m := range have {
		if _, ok := want.get(m.name); !ok {
			c.differs(classBody, at+"."+m.name, "(no member)", m.value)
			continue
		}
		haveBoth = append(haveBoth, m.name)
	}
	if !slices.Equal(both, haveBoth) {
		c.differs(classOrder, at, strings.Join(both, ", "), strings.Join(haveBoth, ", "))
	}
}

// lists compares two lists. Rows with ids are compared with their namesakes.
func (c *comparison) lists(at string, want, have []any) {
	wantIDs, haveIDs := idsOf(want), idsOf(have)
	common := func(ids, others []string) (all []string) {
		for _, id := range ids {
			if slices.Contains(others, id) {
				all = append(all, id)
			}
		}
		return all
	}
	if !slices.Equal(wantIDs, haveIDs) && len(common(wantIDs, haveIDs)) > 0 {
		// The service sorts containers by their _rid, which is random.
		w, h := common(wantIDs, haveIDs), common(haveIDs, wantIDs)
		if !slices.Equal(w, h) && !strings.HasSuffix(at, "DocumentCollections") {
			c.differs(classOrder, at+" rows", strings.Join(w, ", "), strings.Join(h, ", "))
		}
		for i, id := range wantIDs {
			if j := slices.Index(haveIDs, id); j >= 0 {
				c.values(at+"[id="+id+"]", want[i], have[j])
			} else {
				c.differs(classBody, at, "row "+id, "(no row)")
			}
		}
		for _, id := range haveIDs {
			if !slices.Contains(wantIDs, id) {
				c.differs(classBody, at, "(no row)", "row "+id)
			}
		}
		return
	}
	if len(want) != len(have) {
		c.differs(classBody, at+" length", strconv.Itoa(len(want)), strconv.Itoa(len(have)))
	}
	for i := range min(len(want), len(have)) {
		c.values(fmt.Sprintf("%s[%d]", at, i), want[i], have[i])
	}
}

// idsOf returns the ids of a list's rows. It returns nil if some row has no id of its own.
func idsOf(list []any) (ids []string) {
	for _, row := range list {
		o, _ := row.(object)
		v, _ := o.get("id")
		id, ok := v.(string)
		if !ok || slices.Contains(ids, id) {
			return nil
		}
		ids = append(ids, id)
	}
	return ids
}
