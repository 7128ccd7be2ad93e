package jobs

import (
	"fmt"
	"strings"
)

// regionCodes are the codes assigned by ISO 3166-1 alpha-2. YouTube has charts
// for some of them only, and adds more (i18nRegions.list), so a code without a
// chart is left to YouTube to reject.
const regionCodes = " AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR " +
	"BS BT BV BW BY BZ" +
	" CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM " +
	"FO FR" +
	" GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE " +
	"JM JO JP" +
	" KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ " +
	"MR MS MT MU MV MW MX MY MZ" +
	" NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC " +
	"SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ" +
	" TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW "

// CheckRegionCode returns an error unless name is a two-letter country code of
// ISO 3166-1. The error suggests a code where it can.
func CheckRegionCode(name string) error {
	if isRegionCode(name) {
		return nil
	}
	if meant := suggestRegionCode(name); meant != "" {
		return fmt.Errorf("unknown region %q: write %s", name, meant)
	}
	if strings.EqualFold(name, "EU") {
		return fmt.Errorf("unknown region %q: it is not one country; write the code of each that is meant, such as "+
			"DE and FR", name)
	}
	return fmt.Errorf("unknown region %q: write its two capital letters as in ISO 3166-1, such as US", name)
}

func isRegionCode(name string) bool {
	return len(name) == 2 && strings.Contains(regionCodes, " "+name+" ")
}

// suggestRegionCode returns the code that name was probably meant to be, or "".
// It knows lower case and common codes that are not the ISO one.
func suggestRegionCode(name string) string {
	switch upper := strings.ToUpper(name); {
	case upper == "UK", upper == "GBR":
		return "GB"
	case upper == "USA":
		return "US"
	case upper == "EL":
		return "GR"
	case isRegionCode(upper):
		return upper
	}
	return ""
}
