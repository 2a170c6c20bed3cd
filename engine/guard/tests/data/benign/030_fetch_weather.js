#!/usr/bin/env node
'use strict';

const API_KEY = process.env.WEATHER_API_KEY;
const BASE = 'https://api.openweathermap.org/data/2.5/weather';

async function getWeather(city, units = 'metric') {
  const url = new URL(BASE);
  url.searchParams.set('q', city);
  url.searchParams.set('units', units);
  url.searchParams.set('appid', API_KEY);

  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(), 8000);
  try {
    const res = await fetch(url, { signal: controller.signal });
    if (res.status === 404) throw new Error(`City not found: ${city}`);
    if (!res.ok) throw new Error(`API error ${res.status}`);
    return await res.json();
  } finally {
    clearTimeout(timer);
  }
}

function format(data) {
  const { name, main, weather, wind } = data;
  return [
    `${name}: ${weather[0].description}`,
    `  temperature: ${main.temp.toFixed(1)} C (feels like ${main.feels_like.toFixed(1)} C)`,
    `  humidity:    ${main.humidity}%`,
    `  wind:        ${wind.speed} m/s`,
  ].join('\n');
}

async function main() {
  const city = process.argv.slice(2).join(' ');
  if (!API_KEY || !city) {
    console.error('Usage: WEATHER_API_KEY=... fetch_weather.js <city>');
    process.exit(2);
  }
  console.log(format(await getWeather(city)));
}

main().catch((err) => {
  console.error(err.message);
  process.exit(1);
});
