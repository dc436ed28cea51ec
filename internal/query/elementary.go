package query

import "math"

// Sine, cosine, tangent and logarithms to the last digit, as the C library of the
// service has them: those of package math are off by some, which shows in results
// (the tangent near its poles, the decimal logarithm of a power of ten). They
// calculate with pairs of numbers, about 32 digits.

// pair is the sum of two numbers, of which lo is less than half of hi's last digit.
type pair struct{ hi, lo float64 }

// plain is a number that a pair begins with.
func plain(x float64) pair { return pair{hi: x} }

// sumOf adds two numbers without loss.
func sumOf(a, b float64) pair {
	s := a + b
	t := s - a
	return pair{s, (a - (s - t)) + (b - t)}
}

func (a pair) plus(b pair) pair {
	s := sumOf(a.hi, b.hi)
	return sumOf(s.hi, s.lo+(a.lo+b.lo))
}

func (a pair) times(b pair) pair {
	p := a.hi * b.hi
	return sumOf(p, math.FMA(a.hi, b.hi, -p)+(a.hi*b.lo+a.lo*b.hi))
}

func (a pair) over(b pair) pair {
	q := a.hi / b.hi
	rest := a.plus(b.times(plain(-q)))
	return sumOf(q, rest.hi/b.hi)
}

func (a pair) negative() pair { return pair{-a.hi, -a.lo} }

func (a pair) number() float64 { return a.hi + a.lo }

var (
	ln2  = pair{math.Ln2, 2.3190468138462996e-17}
	ln10 = pair{math.Ln10, -2.1707562233822494e-16}
)

// halfPi is pi/2 in three parts.
var halfPi = [3]float64{1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33}

// maxAngle is where three parts of pi/2 no longer do.
const maxAngle = 1 << 30

// series adds a*c1 + a*c1*x*c2 + a*c1*x*c2*x*c3... until nothing changes; next
// returns the factor that leads from a term to the following one.
func series(a, x pair, next func(k float64) float64) pair {
	sum, term := a, a
	for k := 1.0; k < 64; k++ {
		term = term.times(x).over(plain(next(k)))
		before := sum
		if sum = sum.plus(term); sum == before {
			break
		}
	}
	return sum
}

// sinCos are those of an angle less than maxAngle.
func sinCos(x float64) (sin, cos pair) {
	quarters := math.Round(x / halfPi[0])
	r := plain(x)
	for _, part := range halfPi {
		p := quarters * part
		r = r.plus(pair{p, math.FMA(quarters, part, -p)}.negative())
	}
	square := r.times(r).negative()
	sin = series(r, square, func(k float64) float64 { return 2 * k * (2*k + 1) })
	cos = series(plain(1), square, func(k float64) float64 { return (2*k - 1) * 2 * k })
	switch int64(quarters) & 3 {
	case 1:
		return cos, sin.negative()
	case 2:
		return sin.negative(), cos.negative()
	case 3:
		return cos.negative(), sin
	}
	return sin, cos
}

func sine(x float64) float64 {
	if !(math.Abs(x) < maxAngle) {
		return math.Sin(x)
	}
	sin, _ := sinCos(x)
	return sin.number()
}

func cosine(x float64) float64 {
	if !(math.Abs(x) < maxAngle) {
		return math.Cos(x)
	}
	_, cos := sinCos(x)
	return cos.number()
}

func tangent(x float64) float64 {
	if !(math.Abs(x) < maxAngle) {
		return math.Tan(x)
	}
	sin, cos := sinCos(x)
	return sin.over(cos).number()
}

// cotangent of 0 is infinite.
func cotangent(x float64) float64 { return 1 / tangent(x) }

// logarithmOf is the natural logarithm of a finite positive number.
func logarithmOf(x float64) pair {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = m*2, e-1
	}
	// ln m = 2 artanh s, and artanh s = s + s^3/3 + s^5/5...
	s := plain(m - 1).over(sumOf(m, 1))
	square, power, sum := s.times(s), s, s
	for k := 3.0; k < 128; k += 2 {
		power = power.times(square)
		before := sum
		if sum = sum.plus(power.over(plain(k))); sum == before {
			break
		}
	}
	return ln2.times(plain(float64(e))).plus(sum.times(plain(2)))
}

// logTo is the logarithm to a base.
func logTo(x, base float64) float64 {
	if !(x > 0 && base > 0) || math.IsInf(x, 1) || math.IsInf(base, 1) {
		return math.Log(x) / math.Log(base)
	}
	return logarithmOf(x).over(logarithmOf(base)).number()
}

func log10(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return math.Log10(x)
	}
	return logarithmOf(x).over(ln10).number()
}

func naturalLog(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return math.Log(x)
	}
	return logarithmOf(x).number()
}
