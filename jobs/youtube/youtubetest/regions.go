package youtubetest

import (
	"iter"
	"strings"
)

// regionList has a line with the code and name of each of YouTube's content
// regions, as commonly listed; no recorded answer has them all.
const regionList = `AE United Arab Emirates
AR Argentina
AT Austria
AU Australia
AZ Azerbaijan
BA Bosnia and Herzegovina
BD Bangladesh
BE Belgium
BG Bulgaria
BH Bahrain
BO Bolivia
BR Brazil
BY Belarus
CA Canada
CH Switzerland
CL Chile
CO Colombia
CR Costa Rica
CY Cyprus
CZ Czechia
DE Germany
DK Denmark
DO Dominican Republic
DZ Algeria
EC Ecuador
EE Estonia
EG Egypt
ES Spain
FI Finland
FR France
GB United Kingdom
GE Georgia
GH Ghana
GR Greece
GT Guatemala
HK Hong Kong
HN Honduras
HR Croatia
HU Hungary
ID Indonesia
IE Ireland
IL Israel
IN India
IQ Iraq
IS Iceland
IT Italy
JM Jamaica
JO Jordan
JP Japan
KE Kenya
KH Cambodia
KR South Korea
KW Kuwait
KZ Kazakhstan
LA Laos
LB Lebanon
LI Liechtenstein
LK Sri Lanka
LT Lithuania
LU Luxembourg
LV Latvia
LY Libya
MA Morocco
MD Moldova
ME Montenegro
MK North Macedonia
MT Malta
MX Mexico
MY Malaysia
NG Nigeria
NI Nicaragua
NL Netherlands
NO Norway
NP Nepal
NZ New Zealand
OM Oman
PA Panama
PE Peru
PG Papua New Guinea
PH Philippines
PK Pakistan
PL Poland
PR Puerto Rico
PT Portugal
PY Paraguay
QA Qatar
RO Romania
RS Serbia
RU Russia
SA Saudi Arabia
SE Sweden
SG Singapore
SI Slovenia
SK Slovakia
SN Senegal
SV El Salvador
TH Thailand
TN Tunisia
TR Türkiye
TW Taiwan
TZ Tanzania
UA Ukraine
UG Uganda
US United States
UY Uruguay
VE Venezuela
VN Vietnam
YE Yemen
ZA South Africa
ZW Zimbabwe`

// regions yields the code and name of every region.
func regions() iter.Seq2[string, string] {
	return func(yield func(code, name string) bool) {
		for line := range strings.SplitSeq(regionList, "\n") {
			if !yield(line[:2], line[3:]) {
				return
			}
		}
	}
}

func knownRegion(code string) bool {
	for known := range regions() {
		if known == code {
			return true
		}
	}
	return false
}
