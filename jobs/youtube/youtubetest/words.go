package youtubetest

import "strings"

// words are the parts of titles in one language. A title begins with the id of
// its category; {} stands for the subject.
type words struct {
	titles, subjects, channels []string
}

// vocabulary parses wordList, by language.
func vocabulary() map[string]words {
	all := map[string]words{}
	for block := range strings.SplitSeq(wordList, "\n\n") {
		lang, lines, _ := strings.Cut(block, "\n")
		var w words
		for line := range strings.SplitSeq(lines, "\n") {
			switch kind, text, _ := strings.Cut(line, " "); kind {
			case "title":
				w.titles = append(w.titles, text)
			case "subjects":
				w.subjects = append(w.subjects, strings.Split(text, "; ")...)
			case "channels":
				w.channels = append(w.channels, strings.Split(text, "; ")...)
			}
		}
		all[lang] = w
	}
	return all
}

const wordList = `en
title 10 {} (Official Music Video)
title 10 {} - "Live at the Harbour"
title 24 {} & Friends | Full Episode 12
title 22 I Tried {} for 24 Hours
title 17 {} | Highlights | Matchday 7
title 20 {}: 100% with No Damage
title 1 {} | Official Trailer
title 25 {}: What Happens Next?
title 28 Why {} Isn't What You Think
title 23 When {} Goes Wrong...
title 26 How to Make {} (It's Easy!)
title 15 My Dog Reacts to {}
title 2 {} vs. 1000 HP <drag race>
title 24 WE BOUGHT {}!!
title 10 {} — Lyrics | Music for the Night
subjects Midnight Train; Paper Lanterns; Street Food; Desert Rally; Rock & Roll Radio; Tiny Kitchen
subjects Don't Look Back; The Last Beacon; Ginger Tea; Frozen Lake; Neon Garden; Copper Sky; Grandma's Pie
subjects Nobody's Hero
channels North Pier Films; Salt & Ember; The O'Dell Show; Pixel Foundry; Matchday Central; Harbour Sessions
channels Garage No. 9; Bright Side News; Curious Kettle; Two Left Feet; Wild Acre; Bluebird Records
channels Sunday League & Co; Lantern Street

de
title 10 {} (Offizielles Musikvideo)
title 22 Ich habe {} 7 Tage lang getestet
title 24 "{}" – die ganze Folge
title 26 So geht's: {} & mehr
title 20 {} | Let's Play #12
title 17 {} – alle Tore, alle Höhepunkte
title 25 {}: Was jetzt wichtig ist
title 28 Lohnt sich {}? Der große Test
subjects Schwarzwald; Nachtzug; Käsespätzle; Größenwahn; Süßes Gift; Über den Dächern; Straßenkreuzer
subjects Mondlicht
channels Küche & Köpfe; Spätschicht; Bühne Drei; Fußballfieber; Technikfritz; Der Alltagstest; MusikLaden Nord

fr
title 10 {} (Clip officiel)
title 22 J'ai testé {} pendant 24h
title 24 « {} » : l'épisode complet
title 17 {} | Résumé & buts
title 23 Quand {} tourne mal...
title 20 {}, c'est parti !
title 25 {} : ce qu'il faut savoir
title 26 La recette de {} d'après ma grand-mère
subjects L'Été sans fin; Crème brûlée; Métro, boulot; Château d'eau; Garçon manqué; Cœur de pierre
subjects Forêt noire
channels L'Atelier du Goût; Théâtre & Cie; Ballon d'Essai; Québec en Fête; Les Frères Pixel; Nuit Électrique

es
title 10 {} (Video Oficial)
title 24 ¿Quién se queda con {}? | Capítulo 8
title 17 ¡Golazo! {} en el último minuto
title 22 Pasé una semana con {}
title 23 {}: la peor idea del año
subjects Corazón de Papel; La Niña del Mar; Mañana Será; Señal de Humo; El Último Tren
channels Canal Ñandú; Fútbol & Café; Sello Andino; Risas S.A.

pt
title 10 {} (Clipe Oficial)
title 22 Testei {} por 24 horas e olha no que deu!
title 24 {} - "Episódio Final"
title 17 MELHORES MOMENTOS | {}
title 23 {} & a família toda
title 20 Zerando {} sem levar dano
title 26 Como fazer {} em casa
subjects Coração Vagabundo; Pão de Queijo; Avião de Papel; Saudade; Feijoada; Verão Sem Fim; Lá em Cima
channels Canal do Zé; Forró & Cia; Gol de Placa; Cozinha da Vó; Estúdio Maré; Jogatina BR; Irmãos d'Água

hi
title 10 {} | आधिकारिक वीडियो | Full Song
title 24 {} - एपिसोड 245
title 25 {} की पूरी कहानी | Breaking News
title 23 {} का मज़ाक 😂
title 1 {} Official Trailer
title 26 घर पर {} कैसे बनाएं
subjects दिल की बात; चाँद तारे; माँ का प्यार
subjects मसाला डोसा; रंग बरसे; सच्चा दोस्त
channels सुर संगम; Desi Rasoi & Co; खबर आज; हँसी घर; Bharat Beats

ta
title 10 {} | பாடல் வரிகள்
title 1 {} - Official Teaser | தமிழ்
title 24 {} | முழு நிகழ்ச்சி
subjects காதல் மழை; வானம் நீலம்; அம்மா; கடல் அலை
channels தமிழ் இசை; சென்னை Talkies

pa
title 10 {} (Official Video) | ਨਵਾਂ ਗੀਤ
title 10 {} ft. Friends & Family
title 24 {} | ਪੂਰੀ ਫਿਲਮ
subjects ਦਿਲ ਦੀ ਗੱਲ; ਪੰਜ ਆਬ; ਚੰਨ ਤਾਰਾ; Jatt da Tractor
channels Desi Beat Records; ਪੰਜਾਬੀ ਰੰਗ

ko
title 10 {} MV
title 24 [직캠] {} 무대 | EP.3
title 22 {} 브이로그
title 20 {} 첫 플레이!
subjects 별빛 아래; 푸른 밤; 봄날의 꿈; 네 번째 계절
channels 달빛엔터; M-Seoul & K; 게임하는 곰

ja
title 10 【{}】公式ミュージックビデオ
title 20 【実況】{} #1
title 24 「{}」第5話 予告
title 15 {}と猫の一日
subjects 夜空の向こう; 桜ふたたび; 東京ラムネ; さよならの音
channels ねこ日和; 音楽堂チャンネル; ゲーム夜話

zh
title 10 《{}》官方完整版 MV
title 24 {} 第十二集
title 26 在家做{}
subjects 海上明月; 红豆汤; 风的孩子
channels 四季小厨; 华语音乐台

ru
title 10 {} (Премьера клипа)
title 24 {} — 7 серия
title 22 Я прожил неделю: {}
subjects Белая ночь; Последний звонок; Сибирский экспресс
channels Музыка Севера; Вечер & Ко

ar
title 10 {} - فيديو كليب حصري
title 24 مسلسل {} - الحلقة ١٢
title 26 طريقة عمل {}
subjects قمر الليل; حكاية حب; كسكس أمي
channels أنغام المغرب; مطبخ ليلى

tr
title 10 {} (Official Video)
title 24 {} 34. Bölüm
title 23 {} ile Şaka!
subjects İstanbul'un Işıkları; Gönül Dağı; Çay Saati
channels Şarkı Durağı; Dizi & Film`
